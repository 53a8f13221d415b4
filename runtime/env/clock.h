// SPDX-License-Identifier: Apache-2.0
// The two clocks. Everything that waits, leases or times out uses MonotonicNow; WallNow is only for what people read.
#pragma once

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"

namespace troupe {

// The steady clock (CLOCK_MONOTONIC): never jumps, does not count while the machine sleeps.
Monotonic MonotonicNow();

// The same at a fraction of its cost, and up to kMonotonicCoarse behind.
Monotonic MonotonicCoarse();
inline constexpr absl::Duration kMonotonicCoarse = absl::Milliseconds(10);

// Now plus `timeout`, by the coarse clock where the timeout is so long that it makes no difference.
inline Monotonic DeadlineIn(absl::Duration timeout) {
  constexpr absl::Duration kLongTimeout = absl::Seconds(10);
  return (timeout < kLongTimeout ? MonotonicNow() : MonotonicCoarse()) + timeout;
}

// Whether `when` is over; at the coarse clock's cost where it is far.
inline bool HasPassed(Monotonic when) { return MonotonicCoarse() + kMonotonicCoarse >= when && MonotonicNow() >= when; }

// The wall clock. It may jump by any amount at any time.
absl::Time WallNow();

// Blocks the calling thread. For start-up and tests; everything else waits on a condition with a deadline.
void PauseFor(absl::Duration duration);

}  // namespace troupe
