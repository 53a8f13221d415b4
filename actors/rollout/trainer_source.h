// SPDX-License-Identifier: Apache-2.0
// TrainerSource: the buckets of the weights as actor/0 serves them in the life that it has now.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/actor/actor_context.h"
#include "runtime/weights/weight_source_client.h"

namespace troupe {

// Cancelled when it is told that this life has ended: its successor has other versions. `context` outlives it.
class TrainerSource final : public PullSource {
 public:
  // UNAVAILABLE: the trainer is away.
  static absl::StatusOr<std::unique_ptr<TrainerSource>> Open(ActorContext& context);
  ~TrainerSource() override;

 private:
  TrainerSource(ActorContext& context, const ActorAddress& trainer);

  ActorContext& context_;
  int listener_ = 0;
};

}  // namespace troupe
