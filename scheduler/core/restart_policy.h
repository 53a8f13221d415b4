// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: whether and when a replica is started again after an exit. Pure; times are cluster time (store.proto).
//
// The first restart within a window is at once, the second after the initial backoff, then doubled up to the maximum.
// One exit more than max_restarts within the window gives up. Running out of memory twice in a window gives up: it
// would only happen again. So does a start that fails because of a bad file or value (IsWrongInput).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/v1/head.pb.h"

namespace troupe::scheduler {

inline constexpr int kDefaultMaxRestarts = 5;
inline constexpr int64_t kDefaultWindowMs = 10 * 60 * 1000;
inline constexpr int64_t kDefaultBackoffInitialMs = 100;
inline constexpr int64_t kDefaultBackoffMaxMs = 10 * 1000;

struct RestartLimits {
  int max_restarts = kDefaultMaxRestarts;
  int64_t window_ms = kDefaultWindowMs;
  int64_t backoff_initial_ms = kDefaultBackoffInitialMs;
  int64_t backoff_max_ms = kDefaultBackoffMaxMs;

  // Defaults filled in; a role without a policy has the default one.
  static RestartLimits FromProto(const v1::RoleSpec& role);
};

// Whether an exit counts against the policy. `stopped_by_us`: the scheduler had asked for it.
bool CountsAsFailure(const v1::ExitCause& cause, bool stopped_by_us);

struct RestartDecision {
  bool give_up = false;
  int64_t restart_at_ms = 0;  // When not given up.
  std::string reason;         // A sentence for people.
};

// `failure_ms`: the replica's counted exits before this one; `out_of_memory_ms`: its last one, 0 for none.
RestartDecision DecideRestart(const RestartLimits& limits, const std::vector<int64_t>& failure_ms,
                              int64_t out_of_memory_ms, const v1::ExitCause& cause, int64_t now_ms);

// Adds a counted exit and forgets those outside the window. Its size stays at most max_restarts + 1.
void AddFailure(const RestartLimits& limits, int64_t now_ms, std::vector<int64_t>& failure_ms);

// "killed by signal 9", "exited with 3", "ran out of memory: ..."
std::string CauseText(const v1::ExitCause& cause);

}  // namespace troupe::scheduler
