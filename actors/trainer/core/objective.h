// SPDX-License-Identifier: Apache-2.0
// The trainer's face to actors/algorithms: advantages of a batch, and the loss of a micro-batch with its gradient by
// the model's log-probabilities and entropies. LibTorch stays inside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/trainer/core/batch_rows.h"
#include "actors/trainer/core/trainer_options.h"

namespace troupe {

// Unknown names (with the nearest one), and values or pairs of values that make no sense.
absl::Status CheckOptions(const TrainerOptions& options);

struct BatchAdvantages {
  std::vector<float> advantages;  // flat, a value a token
  std::vector<double> rewards;    // [rows]: sum of token-level rewards, the KL in them included
  double reward_kl = 0;           // mean KL that was taken off
};

// old_logprobs: flat; may be empty where reward_kl_coef, of the KL in the reward, is 0.
absl::StatusOr<BatchAdvantages> ComputeBatchAdvantages(const BatchRows& batch, const TrainerOptions& options,
                                                       absl::Span<const float> old_logprobs, double reward_kl_coef);

// Counts over the whole mini-batch, skipped groups included, so that its gradient does not depend on the split.
struct MiniBatchCounts {
  double tokens = 0;  // under the mask
  double rows = 0;    // with at least one such token
  double width = 0;   // longest response
};

// Rows of one micro-batch, in the order in which the model scored them.
struct MicroBatchColumns {
  std::vector<size_t> rows;          // of the batch
  absl::Span<const float> logprobs;  // in that order, a value a token
  absl::Span<const float> entropy;
  absl::Span<const float> old_logprobs;  // flat over the batch; empty: those of this pass (ratio exactly 1)
  absl::Span<const float> advantages;    // flat over the batch
};

struct MicroBatchLoss {
  std::vector<float> d_logprobs;  // as `logprobs`
  std::vector<float> d_entropy;   // empty if the loss has no entropy term
  // Shares of the mini-batch: they add up over its micro-batches ("actor/pg_loss", "actor/kl_loss", "actor/entropy",
  // "actor/ppo_kl", "actor/pg_clipfrac", ...).
  std::map<std::string, double> shares;
};

absl::StatusOr<MicroBatchLoss> ComputeMicroBatchLoss(const BatchRows& batch, const MicroBatchColumns& columns,
                                                     const MiniBatchCounts& counts, const TrainerOptions& options);

}  // namespace troupe
