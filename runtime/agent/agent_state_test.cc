// SPDX-License-Identifier: Apache-2.0
// What becomes of a worker: its start, its heartbeats, its stop and its exit.
#include "runtime/agent/agent_state.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "runtime/agent/testing/agent_fixture.h"

namespace troupe::agent {
namespace {

TEST_CASE("AgentState: a worker that is ready before the keeper has told its process is reported with it", "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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

TEST_CASE("AgentState: stopping is graceful first, then forced; the shorter grace counts", "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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
  AgentFixture f;
  f.Join();
  f.Run(Life(1));
  f.Wait(1);
  f.now += 3600;
  CHECK(All<SignalWorker>(f.Step(TimePassed())).empty());
  CHECK(All<SignalWorker>(f.Wait(20)).empty());
  CHECK(All<SignalWorker>(f.Wait(12)).size() > 0);
}

TEST_CASE("AgentState: a worker that never registers is killed", "[agent]") {
  AgentFixture f;
  f.Join();
  f.Start(Life(1));
  f.Step(WorkerSpawned{Life(1), 100});
  CHECK(All<SignalWorker>(f.Wait(59)).empty());
  CHECK(All<SignalWorker>(f.Wait(2)).at(0).signal == SIGKILL);
}

TEST_CASE("AgentState: when the keeper dies its workers are reported lost, and waiting ones start on the next",
          "[agent]") {
  AgentFixture f;
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
  AgentFixture f;
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

TEST_CASE("AgentState: an unknown worker must exit; one that comes before the keeper tries again", "[agent]") {
  AgentFixture f;
  f.Hello(Life(1), 1);
  CHECK(absl::IsUnavailable(All<HangUpWorker>(f.last).at(0).status));
  f.Step(KeeperConnected());
  f.Hello(Life(1), 2);
  CHECK(absl::IsNotFound(All<HangUpWorker>(f.last).at(0).status));
}

TEST_CASE("AgentState: a constructor's failure is the cause of the exit that follows", "[agent]") {
  AgentFixture f;
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
    AgentFixture f;
    f.Join();
    f.Run(Life(1));
    f.Step(WorkerSaid{1, ended});
    f.Gone(Life(1), kind);
    CHECK(Exits(f.last).at(0).cause().kind() == kind);
    CHECK(Exits(f.last).at(0).cause().text() == (kind == v1::ExitCause::EXITED ? "I am done" : ""));
  }
}

TEST_CASE("AgentState: a successor starts when what it waited for is refused", "[agent]") {
  AgentFixture f;
  f.Join();
  f.Start(Life(1));
  f.Start(Life(2));
  CHECK(All<SpawnWorker>(f.last).empty());
  f.Step(SpawnRefused{Life(1), absl::ResourceExhaustedError("too many processes")});
  CHECK_FALSE(All<SpawnWorker>(f.last).empty());
}

TEST_CASE("AgentState: a worker on a device that the node does not have is refused, with its number", "[agent]") {
  AgentFixture f({}, 2);
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
