// SPDX-License-Identifier: Apache-2.0
// The life of jobs and workers. ClusterFixture checks replay and invariants after every step.
#include <catch2/catch.hpp>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

const v1::JobSpec kPipeline = Spec("addition", {{"controller", 1, 0.1}, {"rollout", 2, 1, 1}});

TEST_CASE("Cluster: a job is placed as a whole and all its workers start together", "[cluster]") {
  ClusterFixture f;
  CHECK(f.Submit(kPipeline).submit.reason() == "no node has joined yet");
  std::vector<Action> actions = f.FromAgent(1, Registration("n1", 4, 2));
  CHECK(Of<SendToNode>(actions)[0].message.welcome_node().node_incarnation() == 1);
  CHECK(Started(actions) == Lives{"controller/0#1", "rollout/0#1", "rollout/1#1"});
  std::set<int> devices;
  for (const SendToNode& send : Of<SendToNode>(actions)) {
    for (int d : send.message.start_worker().device_indices()) CHECK(devices.insert(d).second);
  }
  CHECK(devices == std::set<int>{0, 1});
}

TEST_CASE("Cluster: what can never fit is refused with the nearest fit, what does not fit now waits", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  Answer never = f.Submit(Spec("big", {{"rollout", 1, 1, 3}}));
  CHECK(never.status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(never.status.message()).find("nearest fit is node n1 with 4 cpus, 2 devices") != std::string::npos);
  CHECK(f.Submit(kPipeline).submit.placements_size() == 3);
  Answer waits = f.Submit(kPipeline);
  CHECK(waits.status.ok());
  CHECK(waits.submit.reason().find("waits for resources: rollout/0 asks for") != std::string::npos);
  CHECK(f.job(waits.submit.job_id()).state() == v1::JOB_PENDING);
}

TEST_CASE("Cluster: a repeated request id is one job, a dry run is none", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  CHECK(f.Submit(kPipeline, "r", true).submit.placements_size() == 3);
  CHECK(f.state().jobs().empty());
  std::string id = f.Submit(kPipeline, "r").submit.job_id();
  f.Restart();
  CHECK(f.Submit(kPipeline, "r").submit.job_id() == id);
  CHECK(f.state().jobs().size() == 1);
}

TEST_CASE("Cluster: readers see a job before its submitter is answered and before its workers start", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  SubmitJob event{77, {}, 1};
  *event.request.mutable_spec() = kPipeline;
  std::vector<Action> actions = f.Do(event);
  auto first_of = [&](auto is) { return std::find_if(actions.begin(), actions.end(), is) - actions.begin(); };
  auto published = first_of([](const Action& a) { return std::holds_alternative<PublishJob>(a); });
  CHECK(published < first_of([](const Action& a) { return std::holds_alternative<Answer>(a); }));
  CHECK(published < first_of([](const Action& a) { return std::holds_alternative<SendToNode>(a); }));
}

TEST_CASE("Cluster: FinishJob stops all workers and the job ends with the last exit", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string id = f.Submit(kPipeline).submit.job_id();
  CHECK(f.Finish(id, 7).code() == absl::StatusCode::kAborted);
  CHECK(f.Finish(id, 1).ok());
  CHECK(f.Finish(id, 1).ok());
  CHECK(f.job(id).state() == v1::JOB_STOPPING);
  f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED);
  f.Exited(1, Life(id, "rollout", 1, 1), v1::ExitCause::SIGNALED, 9);
  CHECK(f.job(id).state() == v1::JOB_STOPPING);
  f.Exited(1, Life(id, "controller", 0, 1), v1::ExitCause::EXITED);
  CHECK(f.job(id).state() == v1::JOB_SUCCEEDED);
  CHECK(f.Finish(id, 1).ok());
}

TEST_CASE("Cluster: a worker that dies is restarted, at once and then with backoff, and at last the job fails",
          "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string id = f.Submit(kPipeline).submit.job_id();
  CHECK(Started(f.Exited(1, Life(id, "rollout", 0, 1), v1::ExitCause::SIGNALED, 9)) == Lives{"rollout/0#2"});
  CHECK(Started(f.Exited(1, Life(id, "rollout", 0, 2), v1::ExitCause::SIGNALED, 9)).empty());
  f.Advance(absl::Milliseconds(99));
  CHECK(Started(f.Do(Tick{})).empty());
  CHECK(f.cluster().NextWake() == f.now() + absl::Milliseconds(1));
  f.Advance(absl::Milliseconds(1));
  CHECK(Started(f.Do(Tick{})) == Lives{"rollout/0#3"});
  for (uint64_t i = 3; i <= 6; ++i) {
    f.Exited(1, Life(id, "rollout", 0, i), v1::ExitCause::SIGNALED, 9);
    f.Heartbeat(1, 1);
    f.Wait(absl::Seconds(2));
  }
  CHECK(f.job(id).state() == v1::JOB_STOPPING);
  CHECK(f.job(id).reason() ==
        "rollout/0 killed by signal 9; it was restarted 5 times within 600 s, which is all its policy allows");
}

TEST_CASE("Cluster: cancel works in every state and is idempotent", "[cluster]") {
  ClusterFixture f;
  std::string pending = f.Submit(kPipeline).submit.job_id();
  CHECK(f.AnswerOf(f.Cancel(pending)).ok());
  CHECK(f.job(pending).state() == v1::JOB_CANCELLED);
  CHECK(f.AnswerOf(f.Cancel(pending)).ok());
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string running = f.Submit(kPipeline).submit.job_id();
  CallId first = f.Cancel(running), second = f.Cancel(running);
  for (auto [role, replica] : {std::pair("rollout", 0), {"rollout", 1}, {"controller", 0}}) {
    CHECK(f.AnswerOf(first).code() == absl::StatusCode::kUnavailable);
    f.Exited(1, Life(running, role, replica, 1), v1::ExitCause::STOPPED);
  }
  CHECK(f.job(running).state() == v1::JOB_CANCELLED);
  CHECK(f.AnswerOf(first).ok());
  CHECK(f.AnswerOf(second).ok());
  absl::Status unknown = f.AnswerOf(f.Cancel("additoin"));
  CHECK(unknown.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(unknown.message()).find("the nearest is 'addition-") != std::string::npos);
}

TEST_CASE("Cluster: exits of a job that ends are observed, not decided, and its end is told at once", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 0));
  std::string id = f.Submit(Spec("hello", {{"hello", 2}})).submit.job_id();
  CHECK(f.last().decides);
  f.Exited(1, Life(id, "hello", 0, 1), v1::ExitCause::EXITED, 3);
  CHECK(f.last().decides);  // What becomes of it is.
  f.Cancel(id);
  CHECK(f.last().decides);
  f.Exited(1, Life(id, "hello", 0, 2), v1::ExitCause::STOPPED);
  CHECK(!f.last().decides);
  f.Exited(1, Life(id, "hello", 1, 1), v1::ExitCause::STOPPED);
  CHECK(!f.last().decides);
  CHECK(f.last().records.size() == 2);
  CHECK(Of<Answer>(f.last().observed).size() == 1);
  // The node forgets an exit when it is told; so that waits for the record.
  CHECK(Of<SendToNode>(f.last().observed).empty());
  REQUIRE(Of<SendToNode>(f.last().actions).size() == 1);
  CHECK(Of<SendToNode>(f.last().actions)[0].message.has_acknowledge_exit());
}

TEST_CASE("Cluster: callers that wait for the end of a cancelled job are bounded", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string id = f.Submit(kPipeline).submit.job_id();
  for (size_t i = 0; i < kCancelsWaitingMax; ++i) f.Cancel(id);
  CHECK(f.AnswerOf(f.Cancel(id)).code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("Cluster: stop is told to the controller, also after restarts, and cancels a job that waits", "[cluster]") {
  ClusterFixture f;
  std::string waiting = f.Submit(kPipeline).submit.job_id();
  CHECK(f.Stop(waiting).ok());
  CHECK(f.job(waiting).state() == v1::JOB_CANCELLED);
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string id = f.Submit(kPipeline).submit.job_id();
  CHECK(f.Stop(id).ok());
  CHECK(f.Stop(id).ok());
  CHECK(f.job(id).stop_requested());
  f.Restart();
  CHECK(f.job(id).stop_requested());
}

TEST_CASE("Cluster: a job without a controller is done when its workers have exited with 0", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 0));
  std::string id = f.Submit(Spec("hello", {{"hello", 2}})).submit.job_id();
  f.Ready(1, Life(id, "hello", 0, 1));
  f.Ready(1, Life(id, "hello", 1, 1));
  CHECK(f.job(id).state() == v1::JOB_RUNNING);
  f.Exited(1, Life(id, "hello", 0, 1), v1::ExitCause::EXITED, 0);
  CHECK(Started(f.Exited(1, Life(id, "hello", 1, 1), v1::ExitCause::EXITED, 3)) == Lives{"hello/1#2"});
  f.Exited(1, Life(id, "hello", 1, 2), v1::ExitCause::EXITED, 0);
  CHECK(f.job(id).state() == v1::JOB_SUCCEEDED);
}

TEST_CASE("Cluster: a device goes to another job only after the exit of its holder", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 1));
  v1::JobSpec spec = Spec("one", {{"rollout", 1, 1, 1}});
  std::string first = f.Submit(spec).submit.job_id(), second = f.Submit(spec).submit.job_id();
  f.Cancel(first);
  CHECK(f.job(second).state() == v1::JOB_PENDING);
  std::vector<Action> actions = f.Exited(1, Life(first, "rollout", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(actions) == Lives{"rollout/0#1"});
  CHECK(f.job(second).state() == v1::JOB_STARTING);
}

TEST_CASE("Cluster: ended jobs are forgotten beyond the bound", "[cluster]") {
  ClusterFixture f({.ended_jobs_max = 2});
  for (int i = 0; i < 5; ++i) CHECK(f.AnswerOf(f.Cancel(f.Submit(kPipeline).submit.job_id())).ok());
  CHECK(f.state().jobs().size() == 2);
}

}  // namespace
}  // namespace troupe::scheduler
