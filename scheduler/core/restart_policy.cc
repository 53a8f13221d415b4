// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe::scheduler {
namespace {

int64_t OrDefault(int64_t value, int64_t otherwise) { return value > 0 ? value : otherwise; }

// Of the nth counted exit in the window, from 1.
int64_t BackoffMs(const RestartLimits& limits, int64_t nth) {
  if (nth <= 1) return 0;
  int64_t delay = limits.backoff_initial_ms;
  for (int64_t i = 2; i < nth && delay < limits.backoff_max_ms; ++i) delay *= 2;
  return std::min(delay, limits.backoff_max_ms);
}

}  // namespace

RestartLimits RestartLimits::FromProto(const v1::RoleSpec& role) {
  RestartLimits limits;
  if (!role.has_restart()) return limits;
  const v1::RestartPolicy& policy = role.restart();
  limits.max_restarts = policy.max_restarts();
  limits.window_ms = OrDefault(policy.window_ms(), kDefaultWindowMs);
  limits.backoff_max_ms = OrDefault(policy.backoff_max_ms(), kDefaultBackoffMaxMs);
  limits.backoff_initial_ms =
      std::min(OrDefault(policy.backoff_initial_ms(), kDefaultBackoffInitialMs), limits.backoff_max_ms);
  return limits;
}

bool CountsAsFailure(const v1::ExitCause& cause, bool stopped_by_us) {
  if (stopped_by_us) return false;
  return cause.kind() != v1::ExitCause::STOPPED && cause.kind() != v1::ExitCause::NODE_LOST;
}

RestartDecision DecideRestart(const RestartLimits& limits, const std::vector<int64_t>& failure_ms,
                              int64_t out_of_memory_ms, const v1::ExitCause& cause, int64_t now_ms) {
  int64_t begin = now_ms - limits.window_ms;
  int64_t nth = 1 + std::count_if(failure_ms.begin(), failure_ms.end(), [&](int64_t at) { return at > begin; });
  std::string what = CauseText(cause);
  RestartDecision decision;
  if (cause.kind() == v1::ExitCause::OUT_OF_MEMORY && out_of_memory_ms > 0 && out_of_memory_ms > begin) {
    decision.give_up = true;
    decision.reason = absl::StrCat(what, "; it is the second time within ", limits.window_ms / 1000,
                                   " s: give it more memory or a smaller batch");
  } else if (cause.kind() == v1::ExitCause::START_FAILED &&
             IsWrongInput(static_cast<absl::StatusCode>(cause.status_code()))) {
    decision.give_up = true;
    decision.reason = what;
  } else if (nth > limits.max_restarts) {
    decision.give_up = true;
    decision.reason = limits.max_restarts == 0
                          ? absl::StrCat(what, "; its policy allows no restart")
                          : absl::StrCat(what, "; it was restarted ", limits.max_restarts, " times within ",
                                         limits.window_ms / 1000, " s, which is all its policy allows");
  } else {
    int64_t delay = BackoffMs(limits, nth);
    decision.restart_at_ms = now_ms + delay;
    decision.reason = absl::StrCat(what, "; restart ", nth, " of ", limits.max_restarts,
                                   delay == 0 ? std::string(" at once") : absl::StrCat(" in ", delay, " ms"));
  }
  return decision;
}

void AddFailure(const RestartLimits& limits, int64_t now_ms, std::vector<int64_t>& failure_ms) {
  std::erase_if(failure_ms, [&](int64_t at) { return at <= now_ms - limits.window_ms; });
  failure_ms.push_back(now_ms);
  size_t keep = static_cast<size_t>(limits.max_restarts) + 1;
  if (failure_ms.size() > keep) {
    failure_ms.erase(failure_ms.begin(), failure_ms.end() - static_cast<std::ptrdiff_t>(keep));
  }
}

std::string CauseText(const v1::ExitCause& cause) {
  std::string text;
  switch (cause.kind()) {
    case v1::ExitCause::EXITED:
      text = absl::StrCat("exited with ", cause.exit_code());
      break;
    case v1::ExitCause::SIGNALED:
      text = absl::StrCat("killed by signal ", cause.signal());
      break;
    case v1::ExitCause::STOPPED:
      text = "stopped";
      break;
    case v1::ExitCause::HUNG:
      text = "hung and was killed";
      break;
    case v1::ExitCause::OUT_OF_MEMORY:
      text = "ran out of memory";
      break;
    case v1::ExitCause::START_FAILED:
      text = "could not be started";
      break;
    case v1::ExitCause::NODE_LOST:
      text = "its node was lost";
      break;
    default:
      text = "ended for an unknown cause";
      break;
  }
  if (!cause.text().empty()) absl::StrAppend(&text, ": ", cause.text());
  return text;
}

}  // namespace troupe::scheduler
