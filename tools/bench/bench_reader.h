// SPDX-License-Identifier: Apache-2.0
// BenchReader: the actor that reads the objects of benchmarks.
#pragma once

#include <cstdint>

#include "runtime/actor/actor.h"
#include "runtime/actor/object_ref.h"

namespace troupe::bench {

class BenchReader : public Actor {
 public:
  absl::Status OnStart(ActorContext& context) override;
  // What Get takes, in microseconds.
  absl::StatusOr<double> GetUs(const ObjectRef<ObjectBytes>& ref) const;
  // Reads a byte of each page; the object's size.
  absl::StatusOr<int64_t> Look(const ObjectRef<ObjectBytes>& ref) const;

 private:
  ActorContext* context_ = nullptr;
};
TROUPE_ACTOR_INTERFACE(BenchReader, TROUPE_METHODS(GetUs, Look));

}  // namespace troupe::bench
