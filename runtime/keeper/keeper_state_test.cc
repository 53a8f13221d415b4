// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/keeper_state.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "runtime/keeper/orphans.h"

namespace troupe::keeper {
namespace {

ActorLife Life(uint64_t incarnation) { return {{JobId("job"), "role", 0}, incarnation}; }
Monotonic At(int seconds) { return Monotonic::FromNanoseconds(seconds * 1'000'000'000LL); }

// A state with an agent that has said hello with a grace of 10 s.
struct Fixture {
  KeeperState state{absl::Seconds(20), At(0)};
  uint64_t next_id = 1;

  std::vector<KeeperAction> Request(v1::KeeperRequest request, Monotonic now = At(1)) {
    request.set_request_id(next_id++);
    return state.Step(AgentRequest{request}, now);
  }
  std::vector<KeeperAction> Hello(uint32_t version = kKeeperProtocolVersion) {
    v1::KeeperRequest request;
    request.mutable_hello()->set_agent_loss_grace_ms(10'000);
    request.mutable_hello()->set_protocol_version(version);
    return Request(request);
  }
  std::vector<KeeperAction> Spawn(uint64_t incarnation) {
    v1::KeeperRequest request;
    *request.mutable_spawn()->mutable_actor() = Life(incarnation).ToProto();
    std::vector<KeeperAction> actions = Request(request);
    if (!actions.empty() && std::holds_alternative<StartWorkerProcess>(actions[0])) {
      state.SetProcess(Life(incarnation), 100 + incarnation);
    }
    return actions;
  }
  void Run(uint64_t incarnation) {
    Spawn(incarnation);
    state.Step(ProgramExecuted{Life(incarnation), absl::OkStatus()}, At(1));
  }
  std::vector<KeeperAction> Exit(uint64_t incarnation) {
    state.Step(ProcessExited{Life(incarnation)}, At(1));
    return state.Step(TreeGone{Life(incarnation), {.exit_code = 4}}, At(1));
  }
};

const v1::KeeperEvent& EventOf(const KeeperAction& action) { return std::get<SendToAgent>(action).event; }

TEST_CASE("KeeperState: nothing but hello is served first, and only of its own protocol version", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  CHECK(EventOf(f.Spawn(1)[0]).done().error().code() == static_cast<int>(absl::StatusCode::kFailedPrecondition));
  CHECK(EventOf(f.Hello(99)[0]).done().error().message().find("99") != std::string::npos);
  CHECK(EventOf(f.Hello()[0]).has_inventory());
}

TEST_CASE("KeeperState: a spawn is answered once its program runs; a repeat does not start it again", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  CHECK(std::holds_alternative<StartWorkerProcess>(f.Spawn(1).at(0)));
  CHECK(f.Spawn(1).empty());
  std::vector<KeeperAction> actions = f.state.Step(ProgramExecuted{Life(1), absl::OkStatus()}, At(1));
  REQUIRE(actions.size() == 1);
  CHECK(EventOf(actions[0]).spawned().pid() == 101);
  CHECK(EventOf(actions[0]).request_id() == 3);
  CHECK(std::get<SendToAgent>(actions[0]).pidfds == std::vector<ActorLife>{Life(1)});
  CHECK(EventOf(f.Spawn(1).at(0)).spawned().pid() == 101);
}

TEST_CASE("KeeperState: an exit is held until it is acknowledged", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  f.Run(1);
  CHECK(EventOf(f.Exit(1).at(0)).exited().cause().exit_code() == 4);
  f.state.Step(AgentLost(), At(2));
  f.state.Step(AgentConnected(), At(3));
  CHECK(EventOf(f.Hello()[0]).inventory().exits_size() == 1);
  v1::KeeperRequest acknowledge;
  *acknowledge.mutable_acknowledge_exit()->mutable_actor() = Life(1).ToProto();
  CHECK(EventOf(f.Request(acknowledge)[0]).done().error().code() == 0);
  CHECK(EventOf(f.Request(acknowledge)[0]).done().error().code() == 0);
  CHECK(EventOf(f.Hello()[0]).inventory().exits_size() == 0);
}

TEST_CASE("KeeperState: an acknowledgement of a worker that lives forgets nothing", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  f.Run(1);
  v1::KeeperRequest acknowledge;
  *acknowledge.mutable_acknowledge_exit()->mutable_actor() = Life(1).ToProto();
  f.Request(acknowledge);
  CHECK(f.state.workers_living() == 1);
}

TEST_CASE("KeeperState: a large inventory comes in packets with at most 64 pidfds", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  for (uint64_t i = 1; i <= 200; ++i) f.Run(i);
  f.Exit(200);
  std::vector<KeeperAction> packets = f.Hello();
  int workers = 0, exits = 0;
  for (size_t i = 0; i < packets.size(); ++i) {
    const v1::KeeperInventory& inventory = EventOf(packets[i]).inventory();
    CHECK(inventory.workers_size() <= 64);
    CHECK(std::get<SendToAgent>(packets[i]).pidfds.size() == static_cast<size_t>(inventory.workers_size()));
    CHECK(inventory.more() == (i + 1 < packets.size()));
    workers += inventory.workers_size();
    exits += inventory.exits_size();
  }
  CHECK(workers == 199);
  CHECK(exits == 1);
}

TEST_CASE("KeeperState: without an agent for the grace everything ends, then the keeper", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  f.Run(1);
  f.state.Step(AgentLost(), At(5));
  CHECK(f.state.NextDeadline() == At(15));
  CHECK(f.state.Step(TimePassed(), At(14)).empty());
  std::vector<KeeperAction> actions = f.state.Step(TimePassed(), At(15));
  REQUIRE(actions.size() == 1);
  CHECK(std::get<SignalTree>(actions[0]).signal == SIGKILL);
  actions = f.Exit(1);
  REQUIRE(actions.size() == 1);
  CHECK(std::holds_alternative<EndKeeper>(actions[0]));
}

TEST_CASE("KeeperState: an agent in time keeps the workers; no agent at all ends the keeper", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  f.Run(1);
  f.state.Step(AgentLost(), At(5));
  f.state.Step(AgentConnected(), At(14));
  CHECK(f.state.Step(TimePassed(), At(100)).empty());
  CHECK(f.state.NextDeadline().infinite());
  KeeperState lonely(absl::Seconds(20), At(0));
  CHECK(lonely.Step(TimePassed(), At(19)).empty());
  CHECK(std::holds_alternative<EndKeeper>(lonely.Step(TimePassed(), At(20)).at(0)));
}

TEST_CASE("KeeperState: workers are bounded", "[keeper]") {
  Fixture f;
  f.state.Step(AgentConnected(), At(0));
  f.Hello();
  for (uint64_t i = 1; i <= KeeperState::kWorkersMax; ++i) f.Spawn(i);
  CHECK(EventOf(f.Spawn(5000)[0]).done().error().code() == static_cast<int>(absl::StatusCode::kResourceExhausted));
}

TEST_CASE("ExitEvidence: the cause follows from what is known", "[keeper]") {
  constexpr int64_t kGiB = 1LL << 30;
  CHECK(CauseOf({.exit_code = 3}).text() == "exited with status 3");
  CHECK(CauseOf({.signaled = true, .signal = SIGSEGV}).kind() == v1::ExitCause::SIGNALED);
  CHECK(CauseOf({.signaled = true, .signal = SIGKILL, .killed_by_troupe = true}).kind() == v1::ExitCause::STOPPED);
  // A kill by hand is not taken for the kernel's.
  CHECK(CauseOf({.signaled = true, .signal = SIGKILL, .peak_rss_bytes = kGiB, .memory_bytes = 16 * kGiB}).kind() ==
        v1::ExitCause::SIGNALED);
  v1::ExitCause full =
      CauseOf({.signaled = true, .signal = SIGKILL, .peak_rss_bytes = 15 * kGiB, .memory_bytes = 16 * kGiB});
  CHECK(full.kind() == v1::ExitCause::OUT_OF_MEMORY);
  CHECK(full.text() == "SIGKILL, not sent by Troupe; peak RSS 15.0 GiB of 16.0 GiB: probably out of memory");
  CHECK(CauseOf({.signaled = true, .signal = SIGKILL, .machine_oom_kills = 1}).kind() == v1::ExitCause::OUT_OF_MEMORY);
  CHECK(CauseOf({.exit_code = 1, .group_oom_kills = 1}).kind() == v1::ExitCause::OUT_OF_MEMORY);
  // A counter that did not move says that it was not the kernel, however much memory there was.
  ExitEvidence big{.signaled = true, .signal = SIGKILL, .peak_rss_bytes = 15 * kGiB, .memory_bytes = 16 * kGiB};
  big.machine_oom_kills = 0;
  CHECK(CauseOf(big).kind() == v1::ExitCause::SIGNALED);
  big.machine_oom_kills = 1;
  big.group_oom_kills = 0;
  CHECK(CauseOf(big).kind() == v1::ExitCause::SIGNALED);
  CHECK(CauseOf({.tree_processes_killed = 2}).text() ==
        "exited with status 0; 2 process(es) it left behind were killed");
}

TEST_CASE("Orphans: a process holds up the exits of those it may belong to, and no others", "[keeper]") {
  constexpr pid_t kKeeper = 10;
  Orphans orphans;
  auto nobody = [](pid_t, const ActorLife&) { return false; };
  // 11 is a living worker, 20 is below it, 30 is an orphan, 31 below the orphan.
  std::vector<ProcessEntry> table = {{11, kKeeper}, {20, 11}, {30, kKeeper}, {31, 30}};
  CHECK(orphans.Update(table, kKeeper, {11}, {Life(1)}, nobody) == std::vector<pid_t>{30});
  CHECK(orphans.Hold(Life(1)));
  // A worker that dies later is not held up by it.
  orphans.Update(table, kKeeper, {11}, {Life(1), Life(2)}, nobody);
  CHECK(orphans.Hold(Life(1)));
  CHECK_FALSE(orphans.Hold(Life(2)));
  // One that is first seen when two have died: both, unless it names one.
  table.push_back({40, kKeeper});
  orphans.Update(table, kKeeper, {11}, {Life(1), Life(2)}, nobody);
  CHECK(orphans.Hold(Life(2)));
  table.pop_back();
  table.push_back({41, kKeeper});
  auto second = [](pid_t pid, const ActorLife& actor) { return pid == 41 && actor == Life(2); };
  orphans.Update({{41, kKeeper}}, kKeeper, {11}, {Life(1), Life(2)}, second);
  CHECK_FALSE(orphans.Hold(Life(1)));
  CHECK(orphans.Hold(Life(2)));
  // A zombie still counts, but needs no killing.
  CHECK(orphans.Update({{41, kKeeper, 0, true}}, kKeeper, {11}, {Life(2)}, nobody).empty());
  CHECK(orphans.Hold(Life(2)));
  CHECK(orphans.KilledOf(Life(1)) == 1);
}

}  // namespace
}  // namespace troupe::keeper
