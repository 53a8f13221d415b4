// SPDX-License-Identifier: Apache-2.0
// CoreSharing: whether two threads that wait for each other in turn, one that calls and one that answers, sleep on the
// same processor. To wake a thread of another processor that sleeps may cost several times as much as to go on with
// one's own; how much depends on the machine, so both are tried and measured. Pure.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace troupe {

class CoreSharing {
 public:
  // A longer wait is none of a quick turn: the watching begins anew.
  static constexpr absl::Duration kShort = absl::Microseconds(200);
  // So many waits in a row are measured apart, then together: their mean does not hang on a single slow one.
  static constexpr int kTrialWaits = 64;
  // What was found holds for so many waits; each time that it was "apart" again for twice as many. A trial that is in
  // vain is one wait in 64 at first, and one in 16,384 at the last.
  static constexpr int kHoldsMin = 4096;
  static constexpr int kHoldsMax = kHoldsMin << 8;
  // Together it has to take less than that part of what it took apart: a smaller gain may be chance.
  static constexpr double kGain = 0.9;

  // Whether the next wait is one together.
  bool together() const { return state_ == State::kTrying || state_ == State::kSharing; }

  // A wait for the only call that is open took that long.
  void Waited(absl::Duration took) {
    if (took > kShort) return Interrupt();
    if (state_ == State::kApart) {
      if (--left_ <= 0) Begin(State::kWatching);
      return;
    }
    sum_ += took;
    if (++count_ < kTrialWaits) return;
    const absl::Duration mean = sum_ / count_;
    switch (state_) {
      case State::kWatching:
        apart_ = mean;
        return Begin(State::kTrying);
      case State::kTrying:
        if (mean < apart_ * kGain) {
          holds_ = kHoldsMin;
          left_ = kHoldsMin;
          return Begin(State::kSharing);
        }
        left_ = holds_;
        holds_ = std::min(2 * holds_, kHoldsMax);
        return Begin(State::kApart);
      case State::kSharing:
        left_ -= count_;
        return Begin(left_ > 0 && mean < apart_ * kGain ? State::kSharing : State::kWatching);
      case State::kApart:
        break;  // Counted above.
    }
  }

  // Something else was waited for.
  void Interrupt() {
    if (state_ != State::kApart) Begin(State::kWatching);
  }

 private:
  enum class State { kWatching, kTrying, kSharing, kApart };
  void Begin(State state) {
    state_ = state;
    sum_ = absl::ZeroDuration();
    count_ = 0;
  }

  State state_ = State::kWatching;
  absl::Duration sum_;
  int count_ = 0;
  absl::Duration apart_;  // The mean of a wait apart, when it was watched last.
  int left_ = 0;          // Waits until it is tried anew.
  int holds_ = kHoldsMin;
};

}  // namespace troupe
