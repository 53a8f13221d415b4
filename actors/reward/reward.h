// SPDX-License-Identifier: Apache-2.0
// Reward: an actor that scores finished responses by the job's reward functions. Programs of the user's are its
// children.
#pragma once

#include <memory>

#include "runtime/actor/actor.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

class RewardScorer;
class RowScoring;

class Reward final : public Actor {
 public:
  Reward();
  ~Reward() override;

  absl::Status OnStart(ActorContext& context) override;
  void OnStop(std::string_view reason) override;

  // UNAVAILABLE: a shard is away. Faults of the reward functions are told by row.
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request);

 private:
  std::unique_ptr<RowScoring> rows_;
  std::unique_ptr<RewardScorer> scorer_;
};

TROUPE_ACTOR_INTERFACE(Reward, TROUPE_METHODS(Score));

}  // namespace troupe
