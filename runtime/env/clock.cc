// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/clock.h"

#include <time.h>

#include <chrono>
#include <thread>

namespace troupe {

Monotonic MonotonicNow() {
  auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return Monotonic::FromNanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count());
}

Monotonic MonotonicCoarse() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return Monotonic::FromNanoseconds(now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec);
}

absl::Time WallNow() {
  auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return absl::FromUnixNanos(std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

void PauseFor(absl::Duration duration) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(absl::ToInt64Nanoseconds(duration)));
}

}  // namespace troupe
