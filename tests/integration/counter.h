// SPDX-License-Identifier: Apache-2.0
// Counter: a user's actor class, for tests of the whole cluster.
#pragma once

#include <cstdint>

#include "runtime/troupe.h"

namespace troupe::tests {

class Counter : public Actor {
 public:
  explicit Counter(int64_t start) : value_(start) {}
  int64_t Add(int64_t n) { return value_ += n; }

 private:
  int64_t value_;
};
TROUPE_ACTOR_INTERFACE(Counter, TROUPE_METHODS(Add));

}  // namespace troupe::tests
