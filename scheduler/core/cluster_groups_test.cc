// SPDX-License-Identifier: Apache-2.0
// Groups of replicas: gangs that start anew together, elastic roles, and a changed number. ClusterFixture checks replay
// and invariants after every step.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

ActorLife Life(const std::string& job, const std::string& role, int replica, uint64_t incarnation) {
  return {{JobId(job), role, replica}, incarnation};
}

v1::JobSpec WithPolicy(v1::JobSpec spec, const std::string& role, v1::GroupPolicy policy) {
  for (v1::RoleSpec& r : *spec.mutable_roles()) {
    if (r.role() == role) r.set_policy(policy);
  }
  return spec;
}

// A controller and a gang of three trainers; no restart is refused early.
v1::JobSpec Gang() {
  return WithPolicy(Spec("gang", {{"controller", 1, 0.1}, {"actor", 3, 1, 1}}), "actor", v1::ALL_FOR_ONE);
}

v1::JobSpec Elastic(int replicas, int least, int most, bool controlled = true) {
  std::vector<RoleShape> shapes = {{"rollout", replicas}};
  if (controlled) shapes.push_back({"controller", 1, 0});
  v1::JobSpec spec = WithPolicy(Spec("elastic", shapes), "rollout", v1::ELASTIC);
  v1::RoleSpec& role = *spec.mutable_roles(0);
  role.set_min_replicas(least);
  role.set_max_replicas(most);
  return spec;
}

// The generations that workers were started with.
std::set<uint64_t> Generations(const std::vector<Action>& actions) {
  std::set<uint64_t> generations;
  for (const SendToNode& send : Of<SendToNode>(actions)) {
    if (send.message.has_start_worker()) generations.insert(send.message.start_worker().group_generation());
  }
  return generations;
}

Lives EventsOf(const std::vector<Action>& actions) {
  Lives events;
  for (const WriteEvent& event : Of<WriteEvent>(actions)) events.push_back(event.event);
  return events;
}

TEST_CASE("Groups: one member of a gang fails, all are stopped and start again together as the next generation",
          "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 3));
  std::string id = f.Submit(Gang()).submit.job_id();
  CHECK(Generations(f.actions()) == std::set<uint64_t>{0, 1});
  std::vector<Action> actions = f.Exited(1, Life(id, "actor", 1, 1), v1::ExitCause::SIGNALED, 11);
  CHECK(Stopped(actions) == Lives{"actor/0#1", "actor/2#1"});
  CHECK(Started(actions).empty());
  CHECK(Started(f.Exited(1, Life(id, "actor", 0, 1), v1::ExitCause::STOPPED)).empty());
  actions = f.Exited(1, Life(id, "actor", 2, 1), v1::ExitCause::SIGNALED, 6);  // The others' death killed it.
  CHECK(Started(actions) == Lives{"actor/0#2", "actor/1#2", "actor/2#2"});
  CHECK(Generations(actions) == std::set<uint64_t>{2});
  CHECK(f.state().FindJob(JobId(id))->groups.at("actor").generation == 2);
  CHECK(f.state().FindReplica(Life(id, "actor", 1, 1).path)->failure_ms.size() == 1);
  CHECK(f.state().FindReplica(Life(id, "actor", 2, 1).path)->failure_ms.empty());
}

TEST_CASE("Groups: a gang that lost a node stays where it can, and its lost places are found together", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  f.FromAgent(2, Registration("n2", 4, 2));
  std::string id = f.Submit(WithPolicy(Spec("gang", {{"actor", 4, 1, 1}}), "actor", v1::ALL_FOR_ONE)).submit.job_id();
  std::vector<Action> actions;
  for (int i = 0; i < 5; ++i) f.Heartbeat(1, 1), actions = (f.Advance(absl::Seconds(2)), f.Do(Tick{}));
  CHECK(f.state().FindNode(NodeId("n2"))->ended);
  REQUIRE(Stopped(actions).size() == 2);
  Lives kept;
  for (int n = 0; n < 4; ++n) {
    const Replica& replica = *f.state().FindReplica(Life(id, "actor", n, 1).path);
    if (replica.node == NodeId("n1"))
      CHECK(Started(f.Exited(1, Life(id, "actor", n, 1), v1::ExitCause::STOPPED)).empty());
  }
  actions = f.FromAgent(3, Registration("n3", 4, 2));
  CHECK(Started(actions) == Lives{"actor/0#2", "actor/1#2", "actor/2#2", "actor/3#2"});
  CHECK(f.state().FindNode(NodeId("n1"))->device_used.size() == 2);
  CHECK(f.state().FindNode(NodeId("n3"))->device_used.size() == 2);
}

TEST_CASE("Groups: a gang waits for the backoff of the one that failed, and the budget of one ends the job",
          "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 3));
  v1::JobSpec spec = Gang();
  spec.mutable_roles(1)->mutable_restart()->set_max_restarts(2);
  std::string id = f.Submit(spec).submit.job_id();
  auto fail = [&](uint64_t incarnation) {
    f.Exited(1, Life(id, "actor", 0, incarnation), v1::ExitCause::SIGNALED, 11);
    f.Exited(1, Life(id, "actor", 1, incarnation), v1::ExitCause::STOPPED);
    return Started(f.Exited(1, Life(id, "actor", 2, incarnation), v1::ExitCause::STOPPED));
  };
  CHECK(fail(1).size() == 3);
  CHECK(fail(2).empty());
  f.Advance(absl::Milliseconds(100));
  CHECK(Started(f.Do(Tick{})).size() == 3);
  f.Exited(1, Life(id, "actor", 0, 3), v1::ExitCause::SIGNALED, 11);
  CHECK(f.job(id).state() == v1::JOB_STOPPING);
  CHECK(f.job(id).reason().find("restarted 2 times") != std::string::npos);
}

TEST_CASE("Groups: an exit with 0 of a gang without a controller is its end, no failure", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 3));
  std::string id = f.Submit(WithPolicy(Spec("gang", {{"actor", 2, 1, 1}}), "actor", v1::ALL_FOR_ONE)).submit.job_id();
  CHECK(Stopped(f.Exited(1, Life(id, "actor", 0, 1), v1::ExitCause::EXITED)).empty());
  SECTION("all of them: the job is done") {
    f.Exited(1, Life(id, "actor", 1, 1), v1::ExitCause::EXITED);
    CHECK(f.job(id).state() == v1::JOB_SUCCEEDED);
  }
  SECTION("when another one fails it starts again with the rest") {
    CHECK(Started(f.Exited(1, Life(id, "actor", 1, 1), v1::ExitCause::SIGNALED, 11)) ==
          Lives{"actor/0#2", "actor/1#2"});
  }
}

TEST_CASE("Groups: roles of one group start anew together, others go on, also over a restart of the head", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 3));
  v1::JobSpec spec = Spec("gang", {{"controller", 1, 0.1}, {"actor", 1}, {"critic", 1}, {"rollout", 1}});
  for (int role : {1, 2}) {
    spec.mutable_roles(role)->set_policy(v1::ALL_FOR_ONE);
    spec.mutable_roles(role)->set_group("training");
  }
  std::string id = f.Submit(spec).submit.job_id();
  CHECK(Stopped(f.Exited(1, Life(id, "critic", 0, 1), v1::ExitCause::HUNG)) == Lives{"actor/0#1"});
  f.Restart();
  v1::AgentToHead registration = Registration("n1", 8, 3, 1);
  for (const char* role : {"controller", "actor", "rollout"}) AddRunning(Life(id, role, 0, 1), registration);
  // What was sent to the node before may not have arrived.
  CHECK(Stopped(f.FromAgent(2, registration)) == Lives{"actor/0#1"});
  CHECK(Started(f.Exited(2, Life(id, "actor", 0, 1), v1::ExitCause::STOPPED)) == Lives{"actor/0#2", "critic/0#2"});
}

TEST_CASE("Groups: a gang that went back to the queue is of a later generation", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 3, 0));
  f.FromAgent(2, Registration("n2", 4, 0));
  std::string id = f.Submit(WithPolicy(Spec("gang", {{"actor", 1, 3}, {"rollout", 1, 2}}), "rollout", v1::ALL_FOR_ONE))
                       .submit.job_id();
  for (int i = 0; i < 5; ++i) f.Heartbeat(2, 2), f.Wait(absl::Seconds(2));
  f.FromAgent(3, Registration("n3", 2, 0));
  std::vector<Action> actions = f.Exited(2, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Generations(actions) == std::set<uint64_t>{0, 2});
}

TEST_CASE("Groups: policies that contradict are refused with the roles' names", "[groups]") {
  ClusterFixture f;
  v1::JobSpec spec = Spec("bad", {{"actor"}, {"critic"}, {"rollout", 2}});
  auto refused = [&] { return std::string(f.Submit(spec).status.message()); };
  SECTION("two policies in one group") {
    spec.mutable_roles(0)->set_group("g");
    spec.mutable_roles(1)->set_group("g");
    spec.mutable_roles(1)->set_policy(v1::ALL_FOR_ONE);
    CHECK(refused().find("role 'critic' has the policy all_for_one and role 'actor' one_for_one") != std::string::npos);
  }
  SECTION("an elastic role that takes turns") {
    spec.mutable_roles(2)->set_policy(v1::ELASTIC);
    spec.mutable_roles(2)->set_colocation_group("turns");
    CHECK(refused().find("takes turns with others in 'turns'") != std::string::npos);
  }
  SECTION("replicas beyond the bounds") {
    spec.mutable_roles(2)->set_max_replicas(1);
    CHECK(refused().find("between min_replicas (1) and max_replicas (1)") != std::string::npos);
  }
}

TEST_CASE("Elastic: a job starts with the replicas that fit, and grows when there is room", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  Answer answer = f.Submit(Elastic(3, 1, 4));
  std::string id = answer.submit.job_id();
  CHECK(Started(f.actions()) == Lives{"controller/0#1", "rollout/0#1", "rollout/1#1"});
  CHECK(!f.state().FindJob(JobId(id))->lacks_slots());
  // A job that waits comes first.
  std::string other = f.Submit(Spec("other", {{"reward", 1, 2}})).submit.job_id();
  CHECK(Started(f.FromAgent(2, Registration("n2", 2, 0))) == Lives{"reward/0#1"});
  CHECK(Started(f.FromAgent(3, Registration("n3", 8, 0))) == Lives{"rollout/2#1", "rollout/3#1"});
  CHECK(f.Submit(Elastic(9, 9, 20)).submit.reason().find("waits for resources") != std::string::npos);
  CHECK(f.Submit(Elastic(30, 13, 40)).status.code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Elastic: a job that lost replicas with a node goes on with its least number, below it recovers",
          "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  f.FromAgent(2, Registration("n2", 2, 0));
  std::string id = f.Submit(Elastic(4, 2, 4)).submit.job_id();
  REQUIRE(Started(f.actions()).size() == 5);
  for (int i = 0; i < 5; ++i) f.Heartbeat(1, 1), f.Wait(absl::Seconds(2));
  REQUIRE(f.state().FindNode(NodeId("n2"))->ended);
  const JobRecord& job = *f.state().FindJob(JobId(id));
  CHECK(!job.lacks_slots());
  CHECK(job.Growing().size() == 2);
  CHECK(Started(f.FromAgent(3, Registration("n2", 1, 0))).size() == 1);
}

TEST_CASE("Elastic: a replica that fails for good is done without, down to the least number", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 0));
  v1::JobSpec spec = Elastic(2, 1, 2);
  spec.mutable_roles(0)->mutable_restart()->set_max_restarts(0);
  std::string id = f.Submit(spec).submit.job_id();
  f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::SIGNALED, 11);
  CHECK(f.job(id).state() == v1::JOB_STARTING);
  CHECK(f.state().FindNode(NodeId("n1"))->used_milli_cpus == 1000);
  CHECK(EventsOf(f.actions()) == Lives{"exited", "given_up"});
  SECTION("the next one ends the job") {
    f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::SIGNALED, 11);
    CHECK(f.job(id).state() == v1::JOB_STOPPING);
  }
  SECTION("scaled, it is tried again") {
    CHECK(f.Scale(id, "rollout", 2).ok());
    CHECK(Started(f.actions()) == Lives{"rollout/0#2"});
  }
}

TEST_CASE("Elastic: a job without controller is done when those that found a place are", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 2, 0));
  std::string id = f.Submit(Elastic(3, 2, 3, /*controlled=*/false)).submit.job_id();
  f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::EXITED);
  CHECK(f.job(id).state() == v1::JOB_STARTING);
  f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::EXITED);
  CHECK(f.job(id).state() == v1::JOB_SUCCEEDED);
}

TEST_CASE("Scale: more replicas are placed when there is room, and lack of it sends nothing back", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 3, 0));
  std::string id = f.Submit(Spec("job", {{"controller", 1, 0}, {"rollout", 2}})).submit.job_id();
  CHECK(f.Scale(id, "rollout", 4).ok());
  CHECK(Started(f.actions()) == Lives{"rollout/2#1"});
  CHECK(EventsOf(f.actions())[0] == "scaled");
  CHECK(f.job(id).spec().roles(1).replicas() == 4);
  CHECK(!f.state().FindJob(JobId(id))->lacks_slots());
  for (int i = 0; i < 50; ++i) f.Heartbeat(1, 1), f.Wait(absl::Seconds(2));
  CHECK(f.state().FindJob(JobId(id))->phase == v1::StoredJob::PLACED);
  CHECK(Started(f.FromAgent(2, Registration("n2", 1, 0))) == Lives{"rollout/3#1"});
  CHECK(f.Scale(id, "rollout", 4).ok());
  CHECK(f.last().records.empty());
}

TEST_CASE("Scale: replicas beyond the number stop, their places are free at their exit, and numbers are used again",
          "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 0));
  std::string id = f.Submit(Spec("job", {{"controller", 1, 1}, {"rollout", 3}})).submit.job_id();
  std::string waiting = f.Submit(Spec("other", {{"reward", 1, 2}})).submit.job_id();
  CHECK(f.Scale(id, "rollout", 1).ok());
  CHECK(Stopped(f.actions()) == Lives{"rollout/1#1", "rollout/2#1"});
  CHECK(Of<SendToNode>(f.actions())[0].message.stop_worker().reason() == "scaled from 3 to 1");
  CHECK(f.Scale(id, "rollout", 1).ok());
  CHECK(Stopped(f.actions()).empty());
  f.Exited(1, Life(id, "rollout", 2, 1), v1::ExitCause::STOPPED);
  CHECK(f.job(waiting).state() == v1::JOB_PENDING);
  CHECK(Started(f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED)) == Lives{"reward/0#1"});
  f.Restart();
  v1::AgentToHead registration = Registration("n1", 5, 0, 1);
  for (const char* role : {"controller", "rollout"}) AddRunning(Life(id, role, 0, 1), registration);
  AddRunning(Life(waiting, "reward", 0, 1), registration);
  CHECK(Started(f.FromAgent(2, registration)).empty());
  CHECK(f.Scale(id, "rollout", 3).ok());
  CHECK(Started(f.actions()) == Lives{"rollout/1#2"});
  CHECK(f.Scale(id, "rollout", 2).ok());
  CHECK(Stopped(f.actions()).empty());
}

TEST_CASE("Scale: a replica that is wanted again while it stops comes back after its exit", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 0));
  std::string id = f.Submit(Spec("job", {{"controller", 1, 1}, {"rollout", 2}})).submit.job_id();
  CHECK(f.Scale(id, "rollout", 1).ok());
  CHECK(f.Scale(id, "rollout", 2).ok());
  CHECK(Started(f.actions()).empty());
  CHECK(Started(f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/1#2"});
  CHECK(f.state().FindReplica(Life(id, "rollout", 1, 1).path)->failure_ms.empty());
}

TEST_CASE("Scale: in a job that waits the new number counts when it is placed", "[groups]") {
  ClusterFixture f;
  std::string id = f.Submit(Spec("job", {{"controller", 1, 0}, {"rollout", 3}})).submit.job_id();
  CHECK(f.Scale(id, "rollout", 5).ok());
  CHECK(f.Scale(id, "rollout", 2).ok());
  CHECK(Started(f.FromAgent(1, Registration("n1", 4, 0))) == Lives{"controller/0#1", "rollout/0#1", "rollout/1#1"});
}

TEST_CASE("Scale: what cannot be scaled is refused and says why", "[groups]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 9, 0));
  v1::JobSpec spec = Spec(
      "job",
      {{"controller", 1, 0}, {"rollout", 2}, {"actor", 1}, {"a", 1, 1, 0, "t"}, {"b", 1, 1, 0, "t"}, {"holder", 2, 0}});
  spec.mutable_roles(1)->set_max_replicas(3);
  spec.mutable_roles(2)->set_policy(v1::ALL_FOR_ONE);
  spec.mutable_roles(5)->set_grow_only(true);
  std::string id = f.Submit(spec).submit.job_id();
  auto refused = [&](const std::string& role, int replicas) {
    absl::Status status = f.Scale(id, role, replicas);
    return absl::StrCat(absl::StatusCodeToString(status.code()), " ", status.message());
  };
  CHECK(refused("rollout", 4) == "INVALID_ARGUMENT role 'rollout' of job '" + id +
                                     "' cannot have 4 replicas: at least 1 (min_replicas), at most 3 (max_replicas)");
  CHECK(refused("rollout", 0).find("INVALID_ARGUMENT") == 0);
  CHECK(refused("rolout", 2).find("has no role 'rolout': it has controller rollout actor a b holder") !=
        std::string::npos);
  CHECK(refused("actor", 2).find("FAILED_PRECONDITION") == 0);
  CHECK(refused("a", 2).find("takes turns with others in 't'") != std::string::npos);
  CHECK(refused("holder", 1).find("has 2 replicas, which hold what others still read: it can only grow") !=
        std::string::npos);
  CHECK(f.Scale(id, "holder", 3).ok());
  CHECK(refused("controller", 1).find("a job has one") != std::string::npos);
  f.Cancel(id);
  CHECK(refused("rollout", 3).find("ends or has ended") != std::string::npos);
  CHECK(f.Scale("nobody", "rollout", 3).code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace troupe::scheduler
