// SPDX-License-Identifier: Apache-2.0
// Queues, priorities, reservations with backfill, preemption, and why a job waits. ClusterFixture checks replay and
// invariants after every step.
#include <catch2/catch.hpp>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

v1::Queue SetQueueTo(ClusterFixture& f, const v1::Queue& queue, absl::Status* status = nullptr) {
  for (const Answer& answer : Of<Answer>(f.Do(SetQueue{9'000, queue}))) {
    if (status != nullptr) *status = answer.status;
    if (!answer.queues.empty()) return answer.queues[0];
  }
  return {};
}

TEST_CASE("Queues: of jobs that wait the one of the highest priority is placed first, then the oldest", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 1));
  const std::string first = SubmitId(f, Work("first", 1));
  const std::string old = SubmitId(f, Work("old", 1));
  const std::string high = SubmitId(f, Work("high", 1, 10));
  End(f, first);
  CHECK(Runs(f, high));
  CHECK_FALSE(Runs(f, old));
  End(f, high);
  CHECK(Runs(f, old));
}

TEST_CASE("Queues: a queue holds no more than its quota, and others pass it", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 4));
  v1::Queue small;
  small.set_name("small");
  small.mutable_quota()->set_devices(1);
  CHECK(SetQueueTo(f, small).name() == "small");
  v1::JobSpec spec = Work("quota", 1);
  spec.set_queue("small");
  const std::string one = SubmitId(f, spec);
  const std::string two = SubmitId(f, spec);
  CHECK(Runs(f, one));
  CHECK(ReasonOf(f, two) == "queue 'small' may hold 1 devices: it holds 1, the job asks for 1");
  CHECK(Runs(f, SubmitId(f, Work("other", 3))));
  f.Restart();  // Queues are durable.
  f.FromAgent(2, Registration("n1", 8, 4, 1));
  SECTION("until the quota is raised") {
    small.mutable_quota()->set_devices(2);
    f.Cancel(f.job(one).job_id());
    SetQueueTo(f, small);
    CHECK(f.state().queues().at("small").quota().devices() == 2);
  }
  SECTION("what alone is over it is refused") {
    v1::JobSpec big = Work("big", 2);
    big.set_queue("small");
    Answer answer = f.Submit(big);
    CHECK(answer.status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(TextOf(answer.status).find("may hold 1 devices") != std::string::npos);
  }
}

TEST_CASE("Queues: a wrong queue, priority, limit or dependency is refused by name", "[queue]") {
  ClusterFixture f;
  auto refused = [&](auto change) {
    v1::JobSpec spec = Work("wrong", 0);
    change(spec);
    return TextOf(f.Submit(spec).status);
  };
  CHECK(refused([](auto& s) { s.set_queue("nope"); }) == "job 'wrong': there is no queue 'nope'; there are: default");
  CHECK(refused([](auto& s) { s.set_priority(1001); }) ==
        "job 'wrong': priority is 1001: it must be between -1000 and 1000");
  CHECK(refused([](auto& s) { s.set_time_limit_ms(-1); }).find("time_limit_ms is -1") != std::string::npos);
  CHECK(refused([](auto& s) {
          s.set_time_limit_ms(5);
          s.set_expected_ms(6);
        }).find("beyond time_limit_ms") != std::string::npos);
  CHECK(refused([](auto& s) { s.add_after()->set_job_id("gone-000000"); }).find("gone-000000") != std::string::npos);
  CHECK(refused([](auto& s) { s.set_max_retries(-1); }).find("max_retries is -1") != std::string::npos);
  absl::Status status;
  v1::Queue bad;
  bad.set_name("bad queue");
  SetQueueTo(f, bad, &status);
  CHECK(TextOf(status).find("name 'bad queue' is not allowed") != std::string::npos);
  bad.set_name("bad");
  bad.set_weight(-1);
  SetQueueTo(f, bad, &status);
  CHECK(TextOf(status).find("weight is -1") != std::string::npos);
}

TEST_CASE("Backfill: nothing that may last delays the job that comes first", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 4));
  v1::JobSpec half = Work("half", 2);
  half.set_time_limit_ms(60'000);
  SubmitId(f, half);
  const std::string big = SubmitId(f, Work("big", 4));
  const std::string small = SubmitId(f, Work("small", 1));
  CHECK(ReasonOf(f, small) == "would fit, but job " + big + " comes first: places on 1 node are kept for it");
  SECTION("what ends before then does not") {
    v1::JobSpec brief = Work("brief", 1);
    brief.set_expected_ms(50'000);
    CHECK(Runs(f, SubmitId(f, brief)));
    brief.set_expected_ms(70'000);
    CHECK_FALSE(Runs(f, SubmitId(f, brief)));
  }
  SECTION("nor does what uses none of the places that are kept") { CHECK(Runs(f, SubmitId(f, Work("cpus", 0)))); }
  SECTION("a node that joins is used") {
    f.FromAgent(2, Registration("n2", 8, 1));
    CHECK(Runs(f, small));
  }
  SECTION("and when it has been cancelled the places are free") {
    f.Cancel(big);
    CHECK(Runs(f, small));
  }
}

TEST_CASE("Backfill: a stream of small jobs does not starve a gang", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 64, 4));
  std::vector<std::string> running;
  for (int i = 0; i < 4; ++i) running.push_back(SubmitId(f, Work("small", 1)));
  const std::string gang = SubmitId(f, Work("gang", 4));
  for (int i = 0; i < 4; ++i) {
    const std::string late = SubmitId(f, Work("late", 1));
    CHECK_FALSE(Runs(f, late));
    CHECK_FALSE(Runs(f, gang));
    End(f, running[static_cast<size_t>(i)]);
  }
  CHECK(Runs(f, gang));
}

TEST_CASE("Preemption: a job of higher priority gets the places of preemptible ones, as few as it needs", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 4));
  v1::JobSpec one = Work("one", 1, -5);
  v1::JobSpec two = Work("two", 2, -5);
  one.set_preemptible(true);
  two.set_preemptible(true);
  const std::string small = SubmitId(f, one);
  const std::string fixed = SubmitId(f, Work("fixed", 1, -5));
  const std::string large = SubmitId(f, two);
  const std::string urgent = SubmitId(f, Work("urgent", 2, 5));
  CHECK(f.job(large).state() == v1::JOB_RECOVERING);
  CHECK(ReasonOf(f, large) == "preempted by job " + urgent + " of priority 5");
  CHECK(Runs(f, small));
  CHECK(Runs(f, fixed));
  CHECK(ReasonOf(f, urgent) == "waits for 1 job of lower priority to give way: " + large);
  f.Exited(1, Life(large, "work", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Runs(f, urgent));
  CHECK(f.job(large).state() == v1::JOB_PENDING);
  End(f, urgent);
  CHECK(Runs(f, large));
}

TEST_CASE("Preemption: equal or higher priority, or one that may not be preempted, is left alone", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 1));
  v1::JobSpec spec = Work("holder", 1, 5);
  const bool preemptible = GENERATE(true, false);
  spec.set_preemptible(preemptible);
  const std::string holder = SubmitId(f, spec);
  const std::string other = SubmitId(f, Work("other", 1, preemptible ? 5 : 100));
  CHECK(Runs(f, holder));
  CHECK_FALSE(Runs(f, other));
}

// The controller of the preempted job is asked to checkpoint first.
TEST_CASE("Preemption: a controller checkpoints first, within a bound, and the job goes on later", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 1));
  v1::JobSpec spec = Spec("train", {{"controller", 1, 0.1}, {"work", 1, 1, 1}});
  spec.set_preemptible(true);
  const std::string train = SubmitId(f, spec);
  const std::string urgent = SubmitId(f, Work("urgent", 1, 1));
  CHECK(f.job(train).stop_requested());
  CHECK(Runs(f, train));
  SECTION("it finishes as interrupted") {
    FinishJob finish{500, {}};
    *finish.request.mutable_controller() = Life(train, "controller", 0, 1).ToProto();
    finish.request.set_interrupted(true);
    CHECK(Of<Answer>(f.Do(finish)).at(0).status.ok());
    CHECK(Of<Answer>(f.Do(finish)).at(0).status.ok());
  }
  SECTION("it misses the deadline") {
    // The node's heartbeats go on.
    for (int64_t ms = 0; ms < ClusterOptions().preempt_grace_ms; ms += 1'000) {
      CHECK(Runs(f, train));
      f.Advance(absl::Seconds(1));
      f.Heartbeat(1, 1);
    }
    CHECK(f.state().FindJob(JobId(train))->phase == v1::StoredJob::REQUEUEING);
  }
  SECTION("also when the head was restarted meanwhile") {
    f.Restart();
    v1::AgentToHead registration = Registration("n1", 8, 1, 1);
    AddRunning(Life(train, "controller", 0, 1), registration);
    AddRunning(Life(train, "work", 0, 1), registration);
    f.FromAgent(1, registration);
    CHECK(f.job(train).stop_requested());
    for (int64_t ms = 0; ms < ClusterOptions().preempt_grace_ms; ms += 1'000) {
      f.Advance(absl::Seconds(1));
      f.Heartbeat(1, 1);
    }
  }
  f.Exited(1, Life(train, "controller", 0, 1), v1::ExitCause::STOPPED);
  f.Exited(1, Life(train, "work", 0, 1), v1::ExitCause::STOPPED);
  REQUIRE(Runs(f, urgent));
  CHECK(f.job(train).state() == v1::JOB_PENDING);
  CHECK_FALSE(f.job(train).stop_requested());
  f.Exited(1, Life(urgent, "work", 0, 1), v1::ExitCause::EXITED);
  CHECK(Runs(f, train));
}

TEST_CASE("Explain: a job that waits says for what, where in the queue it is, and who holds what it needs", "[queue]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  v1::JobSpec limited = Work("holder", 1);
  limited.set_time_limit_ms(60'000);
  const std::string holder = SubmitId(f, limited);
  const std::string big = SubmitId(f, Work("big", 2, 3));
  const std::string small = SubmitId(f, Work("small", 1));
  auto explain = [&](const std::string& id) { return *Of<Answer>(f.Do(ExplainJob{1'000, id})).at(0).explanation; };
  v1::Explanation why = explain(big);
  CHECK(why.waits_for().find("waits for resources: work/0 asks for 1 cpu, 2 devices") == 0);
  REQUIRE(why.details_size() == 3);
  CHECK(why.details(0) == "queue 'default', priority 3: 1 of 2 that wait");
  CHECK(why.details(1) == "places on 1 node are kept for it, from about 1m from now");
  CHECK(why.details(2) == "job " + holder + " holds what it needs");
  why = explain(small);
  CHECK(why.details(0) == "queue 'default', priority 0: 2 of 2 that wait");
  CHECK(why.details(1) == "job " + big + " comes before it and has a reservation on 1 node");
  why = explain(holder);
  CHECK(why.waits_for().empty());
  CHECK(why.placements_size() == 1);
  CHECK(Of<Answer>(f.Do(ExplainJob{1'001, "none-000000"})).at(0).status.code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace troupe::scheduler
