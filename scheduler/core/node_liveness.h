// SPDX-License-Identifier: Apache-2.0
// NodeLease: whether a node lives, judged by its heartbeats on the head's monotonic clock. Alive, then suspect (half of
// the lease passed: nothing new is placed there), then lost (its incarnation ends). A busy node is late before it is
// lost.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"

namespace troupe::scheduler {

enum class NodeLiveness { kAlive, kSuspect, kLost };

class NodeLease {
 public:
  NodeLease() = default;
  NodeLease(absl::Duration lease, Monotonic now) : lease_(lease), heard_(now) {}

  // A heartbeat or a registration arrived at `at`; older ones change nothing.
  void Heard(Monotonic at) { heard_ = std::max(heard_, at); }
  // The head itself did not run for `gap` (stopped, suspended): what it did not hear is no evidence.
  void Forgive(absl::Duration gap) { heard_ = heard_ + gap; }

  NodeLiveness At(Monotonic now) const {
    absl::Duration silence = now - heard_;
    if (silence >= lease_) return NodeLiveness::kLost;
    return silence >= lease_ / 2 ? NodeLiveness::kSuspect : NodeLiveness::kAlive;
  }
  // When the judgement changes if nothing is heard.
  Monotonic NextChange(Monotonic now) const {
    return At(now) == NodeLiveness::kAlive ? heard_ + lease_ / 2 : heard_ + lease_;
  }
  Monotonic heard() const { return heard_; }

 private:
  absl::Duration lease_;
  Monotonic heard_;
};

}  // namespace troupe::scheduler
