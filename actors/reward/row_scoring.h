// SPDX-License-Identifier: Apache-2.0
// RowScoring: what a reward actor does around its scorer. Reward uses it, and a class of the user's that takes its
// place (examples/custom_reward): the class needs no more than a RewardScorer and this.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actors/reward/reward_function.h"
#include "runtime/actor/actor_context.h"
#include "troupe/v1/roles.pb.h"

namespace troupe {

class Tokenizer;

// Not thread-safe.
class RowScoring {
 public:
  // In OnStart; `context` outlives it. NOT_FOUND: the job's model has no tokenizer.
  static absl::StatusOr<std::unique_ptr<RowScoring>> Create(ActorContext& context);
  ~RowScoring();

  // Answers Score: fetches the rows from their shards, decodes them and has them scored. UNAVAILABLE: a shard is away;
  // else what the scorer is broken by. Faults are told by row.
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request, RewardScorer& scorer);

 private:
  RowScoring(ActorContext& context, std::unique_ptr<Tokenizer> tokenizer);
  RewardInput InputOf(const v1::Row& row) const;

  ActorContext& context_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace troupe
