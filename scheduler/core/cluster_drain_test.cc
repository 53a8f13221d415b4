// SPDX-License-Identifier: Apache-2.0
// Nodes that are drained. ClusterFixture checks replay and invariants after every step.
#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

ActorLife Life(const std::string& job, const std::string& role, int replica, uint64_t incarnation) {
  return {{JobId(job), role, replica}, incarnation};
}

Lives EventsOf(const std::vector<Action>& actions) {
  Lives events;
  for (const WriteEvent& event : Of<WriteEvent>(actions)) events.push_back(event.event);
  return events;
}

std::string NodeOf(const ClusterFixture& f, const std::string& job, const std::string& role, int replica) {
  return f.state().FindReplica(Life(job, role, replica, 0).path)->node.value();
}

// Time passes while both nodes live.
std::vector<Action> Pass(ClusterFixture& f, int seconds) {
  std::vector<Action> all;
  for (int i = 0; i < seconds; i += 2) {
    f.Heartbeat(1, 1), f.Heartbeat(2, 2), f.Advance(absl::Seconds(2));
    std::vector<Action> more = f.Do(Tick{});
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST_CASE("Drain: replicas move, each when it has a place elsewhere, and the empty node is drained", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"rollout", 2}})).submit.job_id();
  f.FromAgent(2, Registration("n2", 1, 0));
  CHECK(f.Drain("n1").ok());
  // There is room for one.
  CHECK(Stopped(f.actions()) == Lives{"rollout/0#1"});
  CHECK(Of<SendToNode>(f.actions())[0].message.stop_worker().reason() == "node n1 is drained: new memory");
  CHECK(f.node("n1").state() == "draining");
  CHECK(f.node("n1").reason() == "drained: new memory");
  CHECK(Started(f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/0#2"});
  CHECK(NodeOf(f, id, "rollout", 0) == "n2");
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->failure_ms.empty());
  f.Submit(Spec("other", {{"reward", 1}}));
  CHECK(Started(f.actions()).empty());  // Not there.
  CHECK(Stopped(f.FromAgent(3, Registration("n3", 2, 0))) == Lives{"rollout/1#1"});
  CHECK(Started(f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/1#2"});
  CHECK(f.node("n1").state() == "drained");
  const Lives events = EventsOf(f.actions());
  CHECK(std::count(events.begin(), events.end(), "drained") == 1);
  CHECK(f.Undrain("n1").ok());
  CHECK(f.node("n1").state() == "ready");
}

TEST_CASE("Drain: what has not moved at the deadline is stopped and waits for a place", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"rollout", 2}})).submit.job_id();
  CHECK(f.Drain("n1", 20'000).ok());
  CHECK(Stopped(f.actions()).empty());
  f.FromAgent(2, Registration("n2", 1, 1));
  CHECK(Stopped(f.actions()) == Lives{"rollout/0#1"});
  CHECK(Stopped(Pass(f, 18)).empty());
  CHECK(Stopped(Pass(f, 2)) == Lives{"rollout/1#1"});
  f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED)).empty());
  CHECK(f.node("n1").state() == "drained");
  CHECK(f.state().FindJob(JobId(id))->lacks_slots());
  CHECK(Started(f.FromAgent(3, Registration("n3", 1, 0))) == Lives{"rollout/1#2"});
}

TEST_CASE("Drain: two that move do not count on the same place", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  f.Submit(Spec("one", {{"rollout", 1, 1, 1}}));
  f.Submit(Spec("two", {{"rollout", 1, 1, 1}}));
  f.FromAgent(2, Registration("n2", 4, 1));
  CHECK(f.Drain("n1").ok());
  CHECK(Stopped(f.actions()).size() == 1);
  f.FromAgent(3, Registration("n3", 4, 1));
  CHECK(Stopped(f.actions()).size() == 1);
}

TEST_CASE("Drain: a worker that fails meanwhile is not started there again", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"rollout", 2}})).submit.job_id();
  CHECK(f.Drain("n1").ok());
  CHECK(Started(f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::SIGNALED, 11)).empty());
  CHECK(!f.state().FindJob(JobId(id))->placed[0].placed());
  CHECK(Started(f.FromAgent(2, Registration("n2", 1, 0))) == Lives{"rollout/0#2"});
}

TEST_CASE("Drain: a job whose controller lies there checkpoints, goes back to its queue and is placed anew",
          "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"controller", 1, 1}, {"rollout", 1}})).submit.job_id();
  f.FromAgent(2, Registration("n2", 4, 0));
  CHECK(f.Drain("n1", 60'000).ok());
  CHECK(f.job(id).stop_requested());
  CHECK(Stopped(f.actions()).empty());
  SECTION("when it has reached a safe point") {
    FinishJob finish{99, {}};
    *finish.request.mutable_controller() = Life(id, "controller", 0, 1).ToProto();
    finish.request.set_interrupted(true);
    CHECK(Stopped(f.Do(finish)) == Lives{"controller/0#1", "rollout/0#1"});
  }
  SECTION("at the deadline as it is") { CHECK(Stopped(Pass(f, 60)) == Lives{"controller/0#1", "rollout/0#1"}); }
  f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED);
  f.Exited(1, Life(id, "controller", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(f.actions()) == Lives{"controller/0#2", "rollout/0#2"});
  CHECK(NodeOf(f, id, "controller", 0) == "n2");
  CHECK(f.node("n1").state() == "drained");
}

TEST_CASE("Drain: a job that was to stop and reaches no safe point ends at the deadline", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"controller", 1, 1}})).submit.job_id();
  f.FromAgent(2, Registration("n2", 4, 0));
  CHECK(f.Stop(id).ok());
  CHECK(f.Drain("n1", 10'000).ok());
  Pass(f, 10);
  CHECK(f.job(id).state() == v1::JOB_STOPPING);
  CHECK(f.job(id).reason().find("reached no safe point in time; node n1 is drained") != std::string::npos);
}

TEST_CASE("Drain: a gang without controller starts anew elsewhere, as a whole", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 1));
  f.FromAgent(2, Registration("n2", 2, 1));
  v1::JobSpec spec = Spec("gang", {{"actor", 2, 1, 1}});
  spec.mutable_roles(0)->set_policy(v1::ALL_FOR_ONE);
  std::string id = f.Submit(spec).submit.job_id();
  REQUIRE(NodeOf(f, id, "actor", 0) == "n1");
  CHECK(f.Drain("n1").ok());
  CHECK(Stopped(f.actions()).empty());
  CHECK(Stopped(f.FromAgent(3, Registration("n3", 2, 1))) == Lives{"actor/0#1", "actor/1#1"});
  f.Exited(1, Life(id, "actor", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(f.Exited(2, Life(id, "actor", 1, 1), v1::ExitCause::STOPPED)) == Lives{"actor/0#2", "actor/1#2"});
  CHECK(NodeOf(f, id, "actor", 0) == "n3");
  CHECK(NodeOf(f, id, "actor", 1) == "n2");
}

TEST_CASE("Drain: it holds over restarts of the head and of the node, and a repeat changes the deadline", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"rollout", 1}})).submit.job_id();
  CHECK(f.Drain("n1", 1'000'000).ok());
  CHECK(f.Drain("n1", 20'000).ok());
  f.Restart();
  v1::AgentToHead registration = Registration("n1", 2, 0, 1);
  AddRunning(Life(id, "rollout", 0, 1), registration);
  f.FromAgent(1, registration);
  CHECK(f.node("n1").state() == "draining");
  CHECK(Stopped(Pass(f, 20)) == Lives{"rollout/0#1"});
  f.Do(SessionClosed{1});
  f.FromAgent(2, Registration("n1", 2, 0));  // Its machine started anew.
  CHECK(f.node("n1").state() == "drained");
  CHECK(f.node("n1").incarnation() == 2);
  CHECK(f.job(id).state() == v1::JOB_RECOVERING);
  CHECK(f.Undrain("n1").ok());
  CHECK(Started(f.actions()) == Lives{"rollout/0#2"});
  CHECK(f.Undrain("n1").ok());
  CHECK(f.last().records.empty());
  CHECK(f.Drain("n7").code() == absl::StatusCode::kNotFound);
  CHECK(f.Drain("n1", -5).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Drain: a move that was decided goes on after a restart of the head", "[drain]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Spec("job", {{"rollout", 1}})).submit.job_id();
  f.FromAgent(2, Registration("n2", 2, 0));
  CHECK(f.Drain("n1").ok());
  CHECK(Stopped(f.actions()) == Lives{"rollout/0#1"});
  f.Restart();
  f.FromAgent(2, Registration("n2", 2, 0, 2));
  v1::AgentToHead registration = Registration("n1", 2, 0, 1);
  AddRunning(Life(id, "rollout", 0, 1), registration);
  CHECK(Stopped(f.FromAgent(1, registration)) == Lives{"rollout/0#1"});
  CHECK(Started(f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/0#2"});
}

}  // namespace
}  // namespace troupe::scheduler
