// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/restart_policy.h"

#include <catch2/catch.hpp>

#include "absl/status/status.h"
#include "scheduler/core/node_liveness.h"

namespace troupe::scheduler {
namespace {

v1::ExitCause Cause(v1::ExitCause::Kind kind) {
  v1::ExitCause cause;
  cause.set_kind(kind);
  return cause;
}

TEST_CASE("Restart policy: at once, then capped exponential backoff, then given up", "[restart]") {
  RestartLimits limits{.max_restarts = 6, .window_ms = 1'000'000, .backoff_initial_ms = 100, .backoff_max_ms = 500};
  std::vector<int64_t> failures, delays;
  for (int64_t now = 1000; now < 7000; now += 1000) {
    RestartDecision decision = DecideRestart(limits, failures, 0, Cause(v1::ExitCause::SIGNALED), now);
    REQUIRE(!decision.give_up);
    delays.push_back(decision.restart_at_ms - now);
    AddFailure(limits, now, failures);
  }
  CHECK(delays == std::vector<int64_t>{0, 100, 200, 400, 500, 500});
  CHECK(DecideRestart(limits, failures, 0, Cause(v1::ExitCause::SIGNALED), 7000).give_up);
  CHECK(!DecideRestart(limits, failures, 0, Cause(v1::ExitCause::SIGNALED), 1'001'000).give_up);
}

TEST_CASE("Restart policy: the window forgets and its memory is bounded", "[restart]") {
  RestartLimits limits{.max_restarts = 2, .window_ms = 100};
  std::vector<int64_t> failures;
  for (int64_t now = 0; now < 1000; ++now) {
    AddFailure(limits, now, failures);
    REQUIRE(failures.size() <= 3);
  }
  AddFailure(limits, 5000, failures);
  CHECK(failures == std::vector<int64_t>{5000});
}

TEST_CASE("Restart policy: out of memory is not retried blindly", "[restart]") {
  RestartLimits limits;
  CHECK(!DecideRestart(limits, {}, 0, Cause(v1::ExitCause::OUT_OF_MEMORY), 5000).give_up);
  CHECK(DecideRestart(limits, {1000}, 1000, Cause(v1::ExitCause::OUT_OF_MEMORY), 5000).give_up);
}

TEST_CASE("Restart policy: zero means never, absent means the default", "[restart]") {
  v1::RoleSpec role;
  CHECK(RestartLimits::FromProto(role).max_restarts == kDefaultMaxRestarts);
  role.mutable_restart();
  CHECK(DecideRestart(RestartLimits::FromProto(role), {}, 0, Cause(v1::ExitCause::EXITED), 1).give_up);
}

TEST_CASE("Restart policy: a start that fails because of a bad file is not tried again", "[restart]") {
  RestartLimits limits;
  v1::ExitCause cause = Cause(v1::ExitCause::START_FAILED);
  CHECK_FALSE(DecideRestart(limits, {}, 0, cause, 1).give_up);
  cause.set_status_code(static_cast<int>(absl::StatusCode::kUnavailable));
  CHECK_FALSE(DecideRestart(limits, {}, 0, cause, 1).give_up);
  cause.set_status_code(static_cast<int>(absl::StatusCode::kDataLoss));
  CHECK(DecideRestart(limits, {}, 0, cause, 1).give_up);
}

TEST_CASE("Restart policy: what Troupe stopped or lost is no failure", "[restart]") {
  CHECK(!CountsAsFailure(Cause(v1::ExitCause::NODE_LOST), false));
  CHECK(!CountsAsFailure(Cause(v1::ExitCause::STOPPED), false));
  CHECK(!CountsAsFailure(Cause(v1::ExitCause::SIGNALED), true));
  CHECK(CountsAsFailure(Cause(v1::ExitCause::START_FAILED), false));
  CHECK(CountsAsFailure(Cause(v1::ExitCause::HUNG), false));
}

TEST_CASE("Node lease: alive, suspect, lost; a stall of the head is forgiven", "[liveness]") {
  Monotonic t0 = Monotonic::FromNanoseconds(1'000'000'000);
  NodeLease lease(absl::Seconds(10), t0);
  CHECK(lease.At(t0 + absl::Seconds(4)) == NodeLiveness::kAlive);
  CHECK(lease.NextChange(t0) == t0 + absl::Seconds(5));
  CHECK(lease.At(t0 + absl::Seconds(5)) == NodeLiveness::kSuspect);
  CHECK(lease.At(t0 + absl::Seconds(10)) == NodeLiveness::kLost);
  lease.Heard(t0 - absl::Seconds(1));
  CHECK(lease.heard() == t0);
  lease.Forgive(absl::Seconds(6));
  CHECK(lease.At(t0 + absl::Seconds(10)) == NodeLiveness::kAlive);
}

}  // namespace
}  // namespace troupe::scheduler
