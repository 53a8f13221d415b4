// SPDX-License-Identifier: Apache-2.0
// Monotonic: a point on the steady clock, for waits, leases and deadlines. The wall clock may jump; this does not.
// Pure code is handed the time; only runtime/env reads a clock.
#pragma once

#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace troupe {

class Monotonic {
 public:
  constexpr Monotonic() = default;
  static constexpr Monotonic FromNanoseconds(int64_t ns) { return Monotonic(ns); }
  static constexpr Monotonic Infinite() { return Monotonic(INT64_MAX); }

  constexpr int64_t nanoseconds() const { return ns_; }
  constexpr bool infinite() const { return ns_ == INT64_MAX; }

  friend constexpr auto operator<=>(Monotonic, Monotonic) = default;
  friend Monotonic operator+(Monotonic t, absl::Duration d) {
    if (t.infinite() || d == absl::InfiniteDuration()) return Infinite();
    return Monotonic(t.ns_ + absl::ToInt64Nanoseconds(d));
  }
  friend Monotonic operator-(Monotonic t, absl::Duration d) { return Monotonic(t.ns_ - absl::ToInt64Nanoseconds(d)); }
  friend absl::Duration operator-(Monotonic a, Monotonic b) {
    if (a.infinite()) return absl::InfiniteDuration();
    return absl::Nanoseconds(a.ns_ - b.ns_);
  }

 private:
  explicit constexpr Monotonic(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

}  // namespace troupe
