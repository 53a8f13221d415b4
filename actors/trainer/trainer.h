// SPDX-License-Identifier: Apache-2.0
// Trainer: the actor of role `actor`. It fetches the rows of a batch from the shards, takes one step of TrainerCore,
// and publishes the new weights.
#pragma once

#include <memory>

#include "runtime/actor/actor.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

class Trainer final : public Actor {
 public:
  Trainer();
  ~Trainer() override;

  std::vector<grpc::Service*> Services() override;
  absl::Status OnStart(ActorContext& context) override;

  v1::TrainerState GetState(const v1::GetTrainerStateRequest& request);
  absl::StatusOr<v1::TrainerState> LoadCheckpoint(const v1::LoadCheckpointRequest& request);
  // UNAVAILABLE: a shard is away, nothing was changed. INVALID_ARGUMENT: a malformed row (named).
  absl::StatusOr<v1::TrainStepResponse> TrainStep(const v1::TrainStepRequest& request);
  absl::StatusOr<v1::PublishResponse> Publish(const v1::PublishRequest& request);
  // The model as a Hugging Face folder and the optimizer's state, synced. RESOURCE_EXHAUSTED: no space.
  absl::StatusOr<v1::SaveCheckpointResponse> SaveCheckpoint(const v1::SaveCheckpointRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

TROUPE_ACTOR_INTERFACE(Trainer, TROUPE_METHODS(GetState, LoadCheckpoint, TrainStep, Publish, SaveCheckpoint));

}  // namespace troupe
