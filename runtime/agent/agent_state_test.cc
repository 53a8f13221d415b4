// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/agent_state.h"

#include <signal.h>

#include <catch2/catch.hpp>

namespace troupe::agent {
namespace {

Monotonic At(double seconds) { return Monotonic::FromNanoseconds(static_cast<int64_t>(seconds * 1e9)); }

ActorLife Life(uint64_t incarnation, const std::string& role = "rollout") {
  return {{JobId("job"), role, 0}, incarnation};
}

v1::StartWorker StartOf(const ActorLife& actor, uint64_t term = 5) {
  v1::StartWorker start;
  *start.mutable_actor() = actor.ToProto();
  start.set_term(term);
  start.set_hang_timeout_ms(30'000);
  return start;
}

// An agent whose keeper and head are played by the test. Ticks as the driver does.
struct Fixture {
  v1::AgentIdentity identity = [] {
    v1::AgentIdentity id;
    id.set_node_id("node");
    id.set_node_incarnation(1);
    return id;
  }();
  AgentState state;
  double now = 0;
  std::vector<AgentAction> last;

  explicit Fixture(const std::vector<v1::AssignedWorker>& assigned = {}, int devices = 0)
      : state(Options(devices), identity, assigned, At(0)) {}
  static AgentStateOptions Options(int devices) {
    AgentStateOptions options;
    options.registration.mutable_resources()->set_devices(devices);
    for (int i = 0; i < devices; ++i) options.registration.add_devices()->set_index(i);
    return options;
  }

  // What the folder answers to KeepIdentity.
  absl::Status keep_identity;

  std::vector<AgentAction>& Step(const AgentEvent& event) {
    last = state.Step(event, At(now));
    if (!last.empty() && std::holds_alternative<KeepIdentity>(last.back())) {
      for (AgentAction& action : state.Step(IdentityKept{keep_identity}, At(now))) last.push_back(std::move(action));
    }
    return last;
  }
  // Time passes in ticks; all actions of them.
  std::vector<AgentAction> Wait(double seconds) {
    std::vector<AgentAction> all;
    for (double end = now + seconds; now < end;) {
      now += 0.25;
      for (AgentAction& action : state.Step(TimePassed(), At(now))) all.push_back(std::move(action));
    }
    return all;
  }
  void Head(v1::HeadToAgent message) { Step(HeadSaid{message}); }
  void Welcome(uint64_t term = 5, uint64_t incarnation = 1, std::vector<ActorLife> unknown = {}) {
    v1::HeadToAgent m;
    m.mutable_welcome_node()->set_term(term);
    m.mutable_welcome_node()->set_node_incarnation(incarnation);
    m.mutable_welcome_node()->set_head_loss_grace_ms(60'000);
    for (const ActorLife& life : unknown) *m.mutable_welcome_node()->add_unknown_workers() = life.ToProto();
    Head(m);
  }
  void Join() {
    Step(KeeperConnected());
    Step(HeadConnected());
    Welcome();
  }
  void Start(const ActorLife& actor, uint64_t term = 5) {
    v1::HeadToAgent m;
    *m.mutable_start_worker() = StartOf(actor, term);
    Head(m);
  }
  void Run(const ActorLife& actor) {
    Start(actor);
    Step(WorkerSpawned{actor, 100});
    Hello(actor, actor.incarnation);
  }
  void Stop(const ActorLife& actor, int64_t grace_ms, uint64_t term = 5) {
    v1::HeadToAgent m;
    *m.mutable_stop_worker()->mutable_actor() = actor.ToProto();
    m.mutable_stop_worker()->set_grace_ms(grace_ms);
    m.mutable_stop_worker()->set_reason("test");
    m.mutable_stop_worker()->set_term(term);
    Head(m);
  }
  void Acknowledge(const ActorLife& actor) {
    v1::HeadToAgent m;
    *m.mutable_acknowledge_exit()->mutable_actor() = actor.ToProto();
    Head(m);
  }
  void Hello(const ActorLife& actor, WorkerSessionId session, bool reconnect = false, bool ready = false) {
    v1::WorkerToAgent m;
    *m.mutable_hello()->mutable_actor() = actor.ToProto();
    m.mutable_hello()->set_reconnect(reconnect);
    m.mutable_hello()->set_ready(ready);
    m.mutable_hello()->set_endpoint(ready ? "unix:/w" : "");
    Step(WorkerSaid{session, m});
  }
  void Beat(WorkerSessionId session) {
    v1::WorkerToAgent m;
    m.mutable_heartbeat();
    Step(WorkerSaid{session, m});
  }
  void Gone(const ActorLife& actor, v1::ExitCause::Kind kind = v1::ExitCause::EXITED) {
    v1::ExitCause cause;
    cause.set_kind(kind);
    Step(WorkerGone{actor, cause});
  }
};

template <typename T>
std::vector<T> All(const std::vector<AgentAction>& actions) {
  std::vector<T> found;
  for (const AgentAction& action : actions) {
    if (const T* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

std::vector<v1::WorkerExited> Exits(const std::vector<AgentAction>& actions) {
  std::vector<v1::WorkerExited> exits;
  for (const TellHead& tell : All<TellHead>(actions)) {
    if (tell.message.has_worker_exited()) exits.push_back(tell.message.worker_exited());
  }
  return exits;
}

TEST_CASE("AgentState: registers when it knows what runs, with the whole inventory", "[agent]") {
  v1::AssignedWorker running, ended, lost;
  *running.mutable_start() = StartOf(Life(1));
  *ended.mutable_start() = StartOf(Life(2, "reward"));
  *lost.mutable_start() = StartOf(Life(3, "actor"));
  Fixture f({running, ended, lost});
  CHECK(All<TellHead>(f.Step(HeadConnected())).empty());
  KeeperConnected keeper;
  *keeper.workers.emplace_back().mutable_actor() = Life(1).ToProto();
  keeper.workers.back().set_pid(77);
  *keeper.exits.emplace_back().mutable_actor() = Life(2, "reward").ToProto();
  keeper.exits.back().mutable_cause()->set_exit_code(9);
  auto tells = All<TellHead>(f.Step(keeper));
  REQUIRE(tells.size() == 1);
  const v1::RegisterNode& node = tells[0].message.register_node();
  REQUIRE(node.workers_size() == 1);
  CHECK(node.workers(0).pid() == 77);
  REQUIRE(node.unacknowledged_exits_size() == 2);
  CHECK(node.unacknowledged_exits(0).cause().kind() == v1::ExitCause::NODE_LOST);
  CHECK(node.unacknowledged_exits(1).cause().exit_code() == 9);
  // A worker that was adopted reconnects; it is not given its assignment again.
  f.Welcome();
  f.Hello(Life(1), 1, true, true);
  CHECK(All<TellWorker>(f.last).empty());
  REQUIRE(All<TellHead>(f.last).size() == 1);
  CHECK(All<TellHead>(f.last)[0].message.worker_ready().address().endpoint() == "unix:/w");
}

TEST_CASE("AgentState: a worker that is ready before the keeper has told its process is reported with it", "[agent]") {
  Fixture f;
  f.Join();
  f.Start(Life(1));
  f.Hello(Life(1), 1);
  v1::WorkerToAgent ready;
  ready.mutable_ready()->set_endpoint("unix:/w");
  f.Step(WorkerSaid{1, ready});
  CHECK(All<TellHead>(f.last).empty());
  f.Step(WorkerSpawned{Life(1), 42});
  REQUIRE(All<TellHead>(f.last).size() == 2);
  CHECK(All<TellHead>(f.last)[1].message.worker_ready().address().pid() == 42);
}

TEST_CASE("AgentState: a worker is started once, given its assignment, and reported ready", "[agent]") {
  Fixture f;
  f.Join();
  f.Start(Life(1));
  CHECK(All<KeepAssignment>(f.last).size() == 1);
  CHECK(All<SpawnWorker>(f.last).size() == 1);
  f.Start(Life(1));
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Step(WorkerSpawned{Life(1), 42});
  CHECK(All<TellHead>(f.last).at(0).message.worker_started().pid() == 42);
  f.Hello(Life(1), 1);
  CHECK(All<TellWorker>(f.last).at(0).message.assignment().start().actor().incarnation() == 1);
  v1::WorkerToAgent ready;
  ready.mutable_ready()->set_endpoint("unix:/w");
  f.Step(WorkerSaid{1, ready});
  CHECK(All<TellHead>(f.last).at(0).message.worker_ready().address().pid() == 42);
  f.Start(Life(1));
  CHECK(All<TellHead>(f.last).size() == 2);
}

TEST_CASE("AgentState: an exit is told until it is acknowledged, then forgotten everywhere", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Gone(Life(1));
  CHECK(Exits(f.last).size() == 1);
  CHECK(All<ReleaseWorker>(f.last).size() == 1);
  f.Step(HeadDisconnected{absl::UnavailableError("test")});
  f.Step(HeadConnected());
  CHECK(All<TellHead>(f.last).at(0).message.register_node().unacknowledged_exits_size() == 1);
  f.Welcome();
  f.Acknowledge(Life(1));
  CHECK(All<AcknowledgeToKeeper>(f.last).size() == 1);
  CHECK(All<ForgetAssignment>(f.last).size() == 1);
  f.Acknowledge(Life(1));
  CHECK(f.last.empty());
}

TEST_CASE("AgentState: orders of another term than the welcome's are refused, a newer one is kept first (AGT-2)",
          "[agent]") {
  Fixture f;
  f.Join();
  CHECK(f.state.identity().highest_term() == 5);
  f.Start(Life(1), 4);
  CHECK(All<HangUpHead>(f.last).size() == 1);
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Start(Life(1), 6);
  CHECK(All<HangUpHead>(f.last).size() == 1);
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Step(HeadDisconnected{absl::OkStatus()});
  f.Step(HeadConnected());
  f.Welcome(6);
  CHECK(std::get<KeepIdentity>(f.last.at(0)).identity.highest_term() == 6);
  f.Step(HeadDisconnected{absl::OkStatus()});
  f.Step(HeadConnected());
  CHECK(All<TellHead>(f.last).at(0).message.register_node().highest_term() == 6);
  f.Welcome(5);
  CHECK(All<HangUpHead>(f.last).size() == 1);
  CHECK_FALSE(f.state.registered());
}

TEST_CASE("AgentState: stopping is graceful first, then forced; the shorter grace counts", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Stop(Life(1), 5000);
  CHECK(All<TellWorker>(f.last).at(0).message.stop().grace_ms() == 5000);
  CHECK(All<SignalWorker>(f.last).empty());
  f.Stop(Life(1), 9000);
  CHECK(All<TellWorker>(f.last).empty());
  f.Stop(Life(1), 2000);
  CHECK(All<SignalWorker>(f.Wait(1.5)).empty());
  CHECK(All<SignalWorker>(f.Wait(1)).at(0).signal == SIGKILL);
  f.Gone(Life(1), v1::ExitCause::STOPPED);
  CHECK(Exits(f.last).at(0).cause().kind() == v1::ExitCause::STOPPED);
}

TEST_CASE("AgentState: a worker without heartbeats is killed and reported as hung; a busy one is not", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Run(Life(2, "reward"));
  for (int i = 0; i < 29; ++i) {
    f.Beat(1);
    CHECK(All<SignalWorker>(f.Wait(1)).empty());
  }
  std::vector<SignalWorker> kills;
  for (int i = 0; i < 2; ++i) {
    f.Beat(1);
    for (const SignalWorker& kill : All<SignalWorker>(f.Wait(1))) kills.push_back(kill);
  }
  REQUIRE(!kills.empty());
  CHECK(kills[0].actor == Life(2, "reward"));
  f.Gone(Life(2, "reward"), v1::ExitCause::STOPPED);
  CHECK(Exits(f.last).at(0).cause().kind() == v1::ExitCause::HUNG);
}

TEST_CASE("AgentState: time in which the agent was stopped counts against no worker (AGT-4)", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Wait(1);
  f.now += 3600;
  CHECK(All<SignalWorker>(f.Step(TimePassed())).empty());
  CHECK(All<SignalWorker>(f.Wait(20)).empty());
  CHECK(All<SignalWorker>(f.Wait(12)).size() > 0);
}

TEST_CASE("AgentState: a worker that never registers is killed", "[agent]") {
  Fixture f;
  f.Join();
  f.Start(Life(1));
  f.Step(WorkerSpawned{Life(1), 100});
  CHECK(All<SignalWorker>(f.Wait(59)).empty());
  CHECK(All<SignalWorker>(f.Wait(2)).at(0).signal == SIGKILL);
}

TEST_CASE("AgentState: when the keeper dies its workers are reported lost, and waiting ones start on the next",
          "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Step(KeeperDisconnected());
  f.Start(Life(1, "reward"));
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Step(KeeperConnected());
  REQUIRE(Exits(f.last).size() == 1);
  CHECK(Exits(f.last)[0].cause().kind() == v1::ExitCause::NODE_LOST);
  CHECK(All<SpawnWorker>(f.last).size() == 1);
}

TEST_CASE("AgentState: a new life of an actor starts when the one before it has ended (AGT-1)", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Start(Life(2));
  CHECK(All<SpawnWorker>(f.last).empty());
  CHECK(All<SignalWorker>(f.last).at(0).signal == SIGKILL);
  f.Gone(Life(1));
  CHECK(All<SpawnWorker>(f.last).size() == 1);
  f.Start(Life(1));
  CHECK(All<SpawnWorker>(f.last).empty());
}

TEST_CASE("AgentState: what the head does not know, and an ended incarnation of the node, is ended at once",
          "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Run(Life(2, "reward"));
  f.Step(HeadDisconnected{absl::UnavailableError("test")});
  f.Step(HeadConnected());
  f.Welcome(5, 1, {Life(1)});
  REQUIRE(All<SignalWorker>(f.last).size() == 1);
  CHECK(All<SignalWorker>(f.last)[0].actor == Life(1));
  f.Step(HeadDisconnected{absl::AbortedError("test")});
  f.Step(HeadConnected());
  f.Welcome(5, 2);
  CHECK(All<SignalWorker>(f.last).size() == 1);
  CHECK(All<SignalWorker>(f.last)[0].actor == Life(2, "reward"));
}

TEST_CASE("AgentState: workers outlive their head for the grace, and no longer", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Step(HeadDisconnected{absl::UnavailableError("test")});
  for (int i = 0; i < 59; ++i) {
    f.Beat(1);
    // Attempts that fail change nothing.
    f.Step(HeadConnected());
    f.Step(HeadDisconnected{absl::UnavailableError("refused")});
    CHECK(All<TellWorker>(f.Wait(1)).empty());
  }
  f.Beat(1);
  CHECK(All<TellWorker>(f.Wait(2)).at(0).message.has_stop());
}

TEST_CASE("AgentState: an unknown worker must exit; one that comes before the keeper tries again", "[agent]") {
  Fixture f;
  f.Hello(Life(1), 1);
  CHECK(absl::IsUnavailable(All<HangUpWorker>(f.last).at(0).status));
  f.Step(KeeperConnected());
  f.Hello(Life(1), 2);
  CHECK(absl::IsNotFound(All<HangUpWorker>(f.last).at(0).status));
}

TEST_CASE("AgentState: a constructor's failure is the cause of the exit that follows", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  v1::WorkerToAgent failed;
  failed.mutable_start_failed()->mutable_error()->set_message("no model at /x");
  f.Step(WorkerSaid{1, failed});
  f.Gone(Life(1));
  CHECK(Exits(f.last).at(0).cause().kind() == v1::ExitCause::START_FAILED);
  CHECK(Exits(f.last).at(0).cause().text() == "no model at /x");
}

TEST_CASE("AgentState: what an actor said of its own end is the text of the exit, unless a signal came first",
          "[agent]") {
  v1::WorkerToAgent ended;
  ended.mutable_ended()->set_text("I am done");
  for (v1::ExitCause::Kind kind : {v1::ExitCause::EXITED, v1::ExitCause::SIGNALED}) {
    Fixture f;
    f.Join();
    f.Run(Life(1));
    f.Step(WorkerSaid{1, ended});
    f.Gone(Life(1), kind);
    CHECK(Exits(f.last).at(0).cause().kind() == kind);
    CHECK(Exits(f.last).at(0).cause().text() == (kind == v1::ExitCause::EXITED ? "I am done" : ""));
  }
}

TEST_CASE("AgentState: a shutdown ends when every worker has ended and the head has acknowledged", "[agent]") {
  Fixture f;
  f.Join();
  f.Run(Life(1));
  f.Step(ShutdownRequested{absl::Seconds(3)});
  CHECK(All<Finished>(f.last).empty());
  CHECK(All<TellWorker>(f.last).size() == 1);
  CHECK(All<SignalWorker>(f.Wait(4)).size() > 0);
  f.Gone(Life(1));
  CHECK(All<Finished>(f.last).empty());
  f.Acknowledge(Life(1));
  CHECK(All<Finished>(f.last).size() == 1);
}

TEST_CASE("AgentState: a welcome that cannot be kept does not count (AGT-2)", "[agent]") {
  Fixture f;
  f.keep_identity = absl::ResourceExhaustedError("no space left");
  f.Join();
  CHECK_FALSE(f.state.registered());
  CHECK_FALSE(All<HangUpHead>(f.last).empty());
  CHECK(All<SetHeartbeat>(f.last).empty());
  f.keep_identity = absl::OkStatus();
  f.Step(HeadDisconnected{absl::CancelledError("")});
  f.Step(HeadConnected());
  f.Welcome();
  CHECK_FALSE(All<KeepIdentity>(f.last).empty());
  CHECK(f.state.registered());
}

TEST_CASE("AgentState: a successor starts when what it waited for is refused", "[agent]") {
  Fixture f;
  f.Join();
  f.Start(Life(1));
  f.Start(Life(2));
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Step(SpawnRefused{Life(1), absl::ResourceExhaustedError("too many processes")});
  CHECK_FALSE(All<SpawnWorker>(f.last).empty());
}

v1::DeviceHealth FailedHealth() {
  v1::DeviceHealth failed;
  failed.set_state(v1::DeviceHealth::FAILED);
  failed.set_reason("Xid 79: the GPU has fallen off the bus");
  return failed;
}

// The devices that the actions tell the head of, by number.
std::vector<int> DevicesTold(const std::vector<AgentAction>& actions) {
  std::vector<int> told;
  for (const AgentAction& action : actions) {
    const auto* tell = std::get_if<TellHead>(&action);
    if (tell == nullptr || !tell->message.has_device_changed()) continue;
    CHECK(tell->message.device_changed().device().health().state() == v1::DeviceHealth::FAILED);
    told.push_back(tell->message.device_changed().device().index());
  }
  return told;
}

TEST_CASE("AgentState: a device's failure is told at once, with the next welcome, or with the next registration",
          "[agent]") {
  Fixture f({}, 4);
  f.Join();
  CHECK(DevicesTold(f.Step(DeviceHealthSeen{2, FailedHealth()})) == std::vector<int>{2});
  f.Step(HeadDisconnected{absl::UnavailableError("gone")});
  CHECK(DevicesTold(f.Step(DeviceHealthSeen{1, FailedHealth()})).empty());
  f.Step(HeadConnected());
  const auto* tell = std::get_if<TellHead>(&f.last.back());
  REQUIRE(tell != nullptr);
  const v1::RegisterNode& registration = tell->message.register_node();
  REQUIRE(registration.devices_size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK((registration.devices(i).health().state() == v1::DeviceHealth::FAILED) == (i == 1 || i == 2));
  }
  // Between the registration and its answer.
  CHECK(DevicesTold(f.Step(DeviceHealthSeen{3, FailedHealth()})).empty());
  f.Welcome();
  CHECK(DevicesTold(f.last) == std::vector<int>{3});
  CHECK(DevicesTold(f.Step(DeviceHealthSeen{9, FailedHealth()})).empty());
}

TEST_CASE("AgentState: a worker on a device that the node does not have is refused, with its number", "[agent]") {
  Fixture f({}, 2);
  f.Join();
  v1::HeadToAgent start;
  *start.mutable_start_worker() = StartOf(Life(1));
  start.mutable_start_worker()->add_device_indices(1);
  start.mutable_start_worker()->add_device_indices(2);
  f.Head(start);
  const auto* tell = std::get_if<TellHead>(&f.last.back());
  REQUIRE(tell != nullptr);
  CHECK(tell->message.worker_exited().cause().kind() == v1::ExitCause::START_FAILED);
  CHECK(tell->message.worker_exited().cause().text() == "it was given device 2, but its node has 2 now");
}

}  // namespace
}  // namespace troupe::agent
