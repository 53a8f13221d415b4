// SPDX-License-Identifier: Apache-2.0
// BenchHello: says hello and ends, for the time that a whole job takes.
#pragma once

#include "runtime/actor/actor.h"

namespace troupe::bench {

inline constexpr char kHelloLine[] = "hello, world";

class BenchHello : public Actor {
 public:
  absl::Status OnStart(ActorContext& context) override;
  void Nothing() const {}
};
TROUPE_ACTOR_INTERFACE(BenchHello, TROUPE_METHODS(Nothing));

}  // namespace troupe::bench
