// SPDX-License-Identifier: Apache-2.0
// What passes between the agent and its head: registration, terms, losses, exits, the health of devices.
#include <catch2/catch.hpp>

#include "runtime/agent/agent_state.h"
#include "runtime/agent/testing/agent_fixture.h"

namespace troupe::agent {
namespace {

TEST_CASE("AgentState: registers when it knows what runs, with the whole inventory", "[agent]") {
  v1::AssignedWorker running, ended, lost;
  *running.mutable_start() = StartOf(Life(1));
  *ended.mutable_start() = StartOf(Life(2, "reward"));
  *lost.mutable_start() = StartOf(Life(3, "actor"));
  AgentFixture f({running, ended, lost});
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

TEST_CASE("AgentState: an exit is told until it is acknowledged, then forgotten everywhere", "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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

TEST_CASE("AgentState: what the head does not know, and an ended incarnation of the node, is ended at once",
          "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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

TEST_CASE("AgentState: a shutdown ends when every worker has ended and the head has acknowledged", "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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

v1::DeviceHealth FailedHealth() {
  v1::DeviceHealth failed;
  failed.set_state(v1::DeviceHealth::FAILED);
  failed.set_reason("Xid 79: the GPU has fallen off the bus");
  return failed;
}

// The devices that the actions tell the head of, by number.
std::vector<int> DevicesTold(const std::vector<AgentAction>& actions) {
  std::vector<int> told;
  for (const TellHead& tell : All<TellHead>(actions)) {
    if (!tell.message.has_device_changed()) continue;
    CHECK(tell.message.device_changed().device().health().state() == v1::DeviceHealth::FAILED);
    told.push_back(tell.message.device_changed().device().index());
  }
  return told;
}

TEST_CASE("AgentState: a device's failure is told at once, with the next welcome, or with the next registration",
          "[agent]") {
  AgentFixture f({}, 4);
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

}  // namespace
}  // namespace troupe::agent
