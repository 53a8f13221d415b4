// SPDX-License-Identifier: Apache-2.0
// BusyClock: for how long at least one of several overlapping things went on, since the last Take.
#pragma once

#include <utility>

#include "runtime/base/monotonic.h"

namespace troupe {

class BusyClock {
 public:
  void Begin(Monotonic now) {
    if (open_++ == 0) since_ = now;
  }
  void End(Monotonic now) {
    if (--open_ == 0) total_ += now - since_;
  }
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
