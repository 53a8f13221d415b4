// SPDX-License-Identifier: Apache-2.0
// Eventually: for tests of what happens on other threads or in other processes.
#pragma once

#include "absl/time/time.h"
#include "runtime/env/clock.h"

namespace troupe {

// Asks until `holds()`; false when it has not after `patience`.
template <typename Predicate>
bool Eventually(Predicate holds, absl::Duration patience = absl::Seconds(20)) {
  for (Monotonic deadline = MonotonicNow() + patience; !holds(); PauseFor(absl::Milliseconds(1))) {
    if (MonotonicNow() > deadline) return false;
  }
  return true;
}

}  // namespace troupe
