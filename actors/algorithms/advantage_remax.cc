// SPDX-License-Identifier: Apache-2.0
// remax: the reward still to come, less what the greedy response got.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/flip.h>

#include "actors/algorithms/group_scores.h"
#include "actors/algorithms/masked.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> Remax(const AdvantageInputs& inputs, const OptionValues&) {
  const at::Tensor& rewards = inputs.token_level_rewards;
  const at::Tensor& mask = inputs.response_mask;
  if (!rewards.defined() || !mask.defined() || !inputs.reward_baselines.defined()) {
    return absl::InvalidArgumentError("remax needs token_level_rewards, response_mask and reward_baselines");
  }
  if (rewards.dim() != 2 || rewards.sizes() != mask.sizes() || inputs.reward_baselines.numel() != rewards.size(0)) {
    return absl::InvalidArgumentError(
        "token_level_rewards and response_mask must be [rows, tokens], reward_baselines [rows]");
  }
  const at::Tensor returns = at::flip(at::cumsum(at::flip(ZeroOutside(rewards, mask), {-1}), -1), {-1});
  return Advantages{.advantages = returns - OnEachToken(inputs.reward_baselines, mask), .returns = returns};
}

[[maybe_unused]] const bool kRegistered =
    AdvantageRegistry::Get().Register({.name = "remax",
                                       .formula = "sum of R from t on - the greedy response's score",
                                       .source = "Li et al. 2024 (ReMax)",
                                       .options = {},
                                       .needs = {"reward_baselines"}},
                                      &Remax);

}  // namespace
}  // namespace troupe
