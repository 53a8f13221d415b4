// SPDX-License-Identifier: Apache-2.0
// Advantage estimators by name (algorithm.adv_estimator).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "actors/algorithms/registry.h"

namespace troupe {

// [rows, tokens] unless told otherwise. An estimator takes what it needs and refuses an undefined one by name.
struct AdvantageInputs {
  at::Tensor token_level_rewards;
  at::Tensor response_mask;
  at::Tensor index;             // [rows], int64: rows of one group share a number
  at::Tensor reward_baselines;  // [rows]: the greedy rollout's reward (remax)
};

struct Advantages {
  at::Tensor advantages;  // zero where response_mask is 0
  at::Tensor returns;
};

struct AdvantageTag {
  static constexpr std::string_view kKind = "adv_estimator";
};
using AdvantageFunction = absl::StatusOr<Advantages> (*)(const AdvantageInputs&, const OptionValues&);
using AdvantageRegistry = AlgorithmRegistry<AdvantageTag, AdvantageFunction>;

absl::StatusOr<Advantages> ComputeAdvantages(const std::string& adv_estimator, const AdvantageInputs& inputs,
                                             const std::map<std::string, OptionValue>& options);

}  // namespace troupe
