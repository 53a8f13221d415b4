// SPDX-License-Identifier: Apache-2.0
// What a job runs after, its time limit, its retries, and how long its record stays. ClusterFixture checks replay and
// invariants after every step.
#include <catch2/catch.hpp>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

TEST_CASE("Jobs: one runs after another as it asked, and is cancelled when that cannot come true", "[terms]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 4));
  const std::string first = SubmitId(f, Work("first", 1));
  auto after = [&](v1::JobDependency::Condition condition) {
    v1::JobSpec spec = Work("after", 1);
    spec.add_after()->set_job_id(first);
    spec.mutable_after(0)->set_condition(condition);
    return SubmitId(f, spec);
  };
  const std::string succeeded = after(v1::JobDependency::CONDITION_UNSPECIFIED);
  const std::string failed = after(v1::JobDependency::FAILED);
  const std::string ended = after(v1::JobDependency::ENDED);
  CHECK(ReasonOf(f, succeeded) == "waits for job " + first + " to end");
  const bool success = GENERATE(true, false);
  if (success) {
    End(f, first);
  } else {
    f.Cancel(first);
    f.Exited(1, Life(first, "work", 0, 1), v1::ExitCause::STOPPED);
  }
  CHECK(Runs(f, ended));
  CHECK(f.job(failed).state() == v1::JOB_CANCELLED);
  if (success) {
    CHECK(Runs(f, succeeded));
    CHECK(ReasonOf(f, failed) == "it was to run after job " + first + " had failed, which ended as JOB_SUCCEEDED");
  } else {
    CHECK(f.job(succeeded).state() == v1::JOB_CANCELLED);
  }
}

TEST_CASE("Jobs: what another one waits for is not forgotten, what is old is", "[terms]") {
  ClusterOptions options;
  options.ended_jobs_max = 1;
  ClusterFixture f(options);
  f.FromAgent(1, Registration("n1", 8, 1));
  const std::string first = SubmitId(f, Work("first", 1));
  const std::string holder = SubmitId(f, Work("holder", 1, 10));
  v1::JobSpec spec = Work("after", 1);
  spec.add_after()->set_job_id(first);
  const std::string after = SubmitId(f, spec);
  End(f, first);
  End(f, SubmitId(f, Work("cpus", 0)));
  End(f, SubmitId(f, Work("cpus", 0)));
  CHECK(f.state().FindJob(JobId(first)) != nullptr);
  End(f, holder);
  CHECK(Runs(f, after));
  End(f, SubmitId(f, Work("cpus", 0)));
  CHECK(f.state().FindJob(JobId(first)) == nullptr);
}

TEST_CASE("Jobs: records of ended jobs go when they are old", "[terms]") {
  ClusterOptions options;
  options.ended_job_age_ms_max = 1'000;
  ClusterFixture f(options);
  f.FromAgent(1, Registration("n1", 8, 1));
  const std::string old = SubmitId(f, Work("old", 1));
  End(f, old);
  CHECK(f.state().FindJob(JobId(old)) != nullptr);
  CHECK(f.cluster().NextWake() <= f.now() + absl::Seconds(1));
  f.Wait(absl::Seconds(1));
  CHECK(f.state().FindJob(JobId(old)) == nullptr);
}

TEST_CASE("Jobs: a time limit ends a job as failed, a controller after its checkpoint", "[terms]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 1));
  SECTION("without a controller at once") {
    v1::JobSpec spec = Work("limited", 1);
    spec.set_time_limit_ms(2'000);
    const std::string id = SubmitId(f, spec);
    f.Wait(absl::Milliseconds(1'999));
    CHECK(Runs(f, id));
    f.Wait(absl::Milliseconds(1));
    f.Exited(1, Life(id, "work", 0, 1), v1::ExitCause::STOPPED);
    CHECK(f.job(id).state() == v1::JOB_FAILED);
    CHECK(ReasonOf(f, id) == "its time limit of 2s was reached");
    CHECK(f.job(id).error_code() == static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  }
  SECTION("with one it is asked first") {
    v1::JobSpec spec = Spec("train", {{"controller", 1, 0.1}});
    spec.set_time_limit_ms(2'000);
    spec.set_stop_grace_ms(1'000);
    const std::string id = SubmitId(f, spec);
    f.Wait(absl::Seconds(2));
    CHECK(f.job(id).stop_requested());
    CHECK(Runs(f, id));
    SECTION("and stops") {
      FinishJob finish{500, {}};
      *finish.request.mutable_controller() = Life(id, "controller", 0, 1).ToProto();
      finish.request.set_interrupted(true);
      f.Do(finish);
      CHECK_FALSE(Runs(f, id));
    }
    SECTION("or not") {
      f.Wait(absl::Seconds(1));
      CHECK_FALSE(Runs(f, id));
    }
    f.Exited(1, Life(id, "controller", 0, 1), v1::ExitCause::STOPPED);
    CHECK(f.job(id).state() == v1::JOB_FAILED);
    CHECK(ReasonOf(f, id).find("its time limit of 2s was reached") == 0);
  }
}

TEST_CASE("Jobs: a failed job is tried again within its budget, later each time, but not after wrong input",
          "[terms]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 1));
  v1::JobSpec spec = Work("flaky", 1);
  spec.set_max_retries(2);
  spec.mutable_roles(0)->mutable_restart()->set_max_restarts(0);
  const std::string id = SubmitId(f, spec);
  for (uint64_t attempt = 1; attempt <= 2; ++attempt) {
    f.Exited(1, Life(id, "work", 0, attempt), v1::ExitCause::SIGNALED, 11);
    CHECK(f.job(id).retries() == static_cast<int>(attempt));
    CHECK(f.job(id).state() == v1::JOB_PENDING);
    CHECK(ReasonOf(f, id) == "waits " + std::to_string(attempt) + " s before attempt " + std::to_string(attempt + 1));
    f.Wait(absl::Seconds(attempt) - absl::Milliseconds(1));
    CHECK_FALSE(Runs(f, id));
    f.Wait(absl::Milliseconds(1));
    CHECK(Runs(f, id));
  }
  SECTION("the budget ends") {
    f.Exited(1, Life(id, "work", 0, 3), v1::ExitCause::SIGNALED, 11);
    CHECK(f.job(id).state() == v1::JOB_FAILED);
  }
  SECTION("wrong input is no accident") {
    v1::JobSpec wrong = Work("wrong", 0);
    wrong.set_max_retries(5);
    const std::string bad = SubmitId(f, wrong);
    v1::AgentToHead exit;
    *exit.mutable_worker_exited()->mutable_actor() = Life(bad, "work", 0, 1).ToProto();
    exit.mutable_worker_exited()->mutable_cause()->set_kind(v1::ExitCause::START_FAILED);
    exit.mutable_worker_exited()->mutable_cause()->set_status_code(
        static_cast<int>(absl::StatusCode::kInvalidArgument));
    f.FromAgent(1, exit);
    CHECK(f.job(bad).state() == v1::JOB_FAILED);
    CHECK(f.job(bad).retries() == 0);
  }
}

}  // namespace
}  // namespace troupe::scheduler
