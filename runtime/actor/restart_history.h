// SPDX-License-Identifier: Apache-2.0
// RestartHistory: when a failed actor of this process starts again (RestartOptions, spawn.h). Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/actor/spawn.h"
#include "runtime/base/monotonic.h"

namespace troupe {

class RestartHistory {
 public:
  explicit RestartHistory(const RestartOptions& options) : options_(options) {}

  // A failure at `now`: how long to wait before the next life. Nothing: there is none.
  std::optional<absl::Duration> Next(Monotonic now) {
    std::erase_if(restarts_, [&](Monotonic at) { return now - at >= options_.window; });
    if (static_cast<int>(restarts_.size()) >= options_.max) return std::nullopt;
    absl::Duration delay = absl::ZeroDuration();
    if (!restarts_.empty()) {
      delay = options_.backoff_initial;
      for (size_t i = 1; i < restarts_.size() && delay < options_.backoff_max; ++i) delay *= 2;
      delay = std::min(delay, options_.backoff_max);
    }
    restarts_.push_back(now);
    return delay;
  }

 private:
  const RestartOptions options_;
  std::vector<Monotonic> restarts_;  // Within the window; at most `max`.
};

}  // namespace troupe
