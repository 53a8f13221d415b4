// SPDX-License-Identifier: Apache-2.0
// Advantage estimators by name (algorithm.adv_estimator).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "actors/algorithms/registry.h"

namespace troupe {

// Of a whole train batch, before it is split: group and batch statistics are over all of it. [rows, tokens], float32 or
// float64 (one type for all), unless told otherwise. An estimator takes what it needs and refuses an undefined one, or
// one of another shape, by name (InvalidArgument). Nothing is changed in place.
struct AdvantageInputs {
  at::Tensor token_level_rewards;  // outcome rewards stand on a row's last token; the KL in the reward on each
  at::Tensor response_mask;        // 1 on tokens that the policy made; 0 on padding and on tool output between them
  at::Tensor index;                // [rows], int64: rows of one group share a number
  at::Tensor reward_baselines;     // [rows]: the greedy rollout's reward (remax)
  at::Tensor values;               // the critic's (gae)
};

// [rows, tokens], of the rewards' type, without gradient.
struct Advantages {
  at::Tensor advantages;  // zero where response_mask is 0; only remax has its rewards to come there, too
  at::Tensor returns;     // the critic's target; where an estimator has none, the advantages again
};

struct AdvantageTag {
  static constexpr std::string_view kKind = "adv_estimator";
};
// A pure function; any thread may call it.
using AdvantageFunction = absl::StatusOr<Advantages> (*)(const AdvantageInputs&, const OptionValues&);
using AdvantageRegistry = AlgorithmRegistry<AdvantageTag, AdvantageFunction>;

// Runs the estimator of this name. `options`: algorithm.*, of which it picks its own. InvalidArgument for an unknown
// name (with the nearest one), an option of another type, or a missing input.
absl::StatusOr<Advantages> ComputeAdvantages(const std::string& adv_estimator, const AdvantageInputs& inputs,
                                             const std::map<std::string, OptionValue>& options);

}  // namespace troupe
