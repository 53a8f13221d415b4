// SPDX-License-Identifier: Apache-2.0
// BusyClock: for how long at least one of several overlapping things went on, since the last Take.
#pragma once

#include <utility>

#include "runtime/base/monotonic.h"

namespace troupe {

// Not thread-safe. Times of its calls must not go back. For example, two calls of a role of which one lasts from 0 s to
// 3 s and the other from 1 s to 4 s are 4 s of that role's time in a step.
class BusyClock {
 public:
  // One more of the things goes on; one ends. Each End has a Begin before it.
  void Begin(Monotonic now) {
    if (open_++ == 0) since_ = now;
  }
  void End(Monotonic now) {
    if (--open_ == 0) total_ += now - since_;
  }
  // The time since the last Take, up to now if something still goes on; the rest of that counts next time.
  absl::Duration Take(Monotonic now) {
    absl::Duration taken = std::exchange(total_, absl::ZeroDuration());
    if (open_ > 0) taken += now - std::exchange(since_, now);
    return taken;
  }

 private:
  int open_ = 0;
  Monotonic since_;
  absl::Duration total_ = absl::ZeroDuration();
};

}  // namespace troupe
