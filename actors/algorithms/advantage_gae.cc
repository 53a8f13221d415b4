// SPDX-License-Identifier: Apache-2.0
// gae: generalized advantage estimation with a critic's values, whitened over the batch.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "actors/algorithms/advantages.h"
#include "actors/algorithms/masked.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> Gae(const AdvantageInputs& inputs, const OptionValues& options) {
  const at::Tensor& mask = inputs.response_mask;
  if (!inputs.token_level_rewards.defined() || !mask.defined() || !inputs.values.defined()) {
    return absl::InvalidArgumentError("gae needs token_level_rewards, response_mask and values");
  }
  if (mask.dim() != 2 || inputs.token_level_rewards.sizes() != mask.sizes() || inputs.values.sizes() != mask.sizes()) {
    return absl::InvalidArgumentError("token_level_rewards, response_mask and values must all be [rows, tokens]");
  }
  const double gamma = options.Number("gamma");
  const at::Tensor rewards = ZeroOutside(inputs.token_level_rewards, mask);
  const at::Tensor values = ZeroOutside(inputs.values, mask);
  at::Tensor advantages = at::zeros_like(rewards);
  at::Tensor next_value = at::zeros_like(rewards.select(1, 0));
  at::Tensor next_advantage = next_value;
  for (int64_t t = mask.size(1); t-- > 0;) {
    const at::Tensor counts = mask.select(1, t);
    const at::Tensor delta = rewards.select(1, t) + gamma * next_value - values.select(1, t);
    const at::Tensor advantage = delta + gamma * options.Number("lam") * next_advantage;
    next_value = values.select(1, t) + (1 - counts) * next_value;  // past tool output both go on unchanged
    next_advantage = advantage * counts + (1 - counts) * next_advantage;
    advantages.select(1, t).copy_(next_advantage);
  }
  absl::StatusOr<at::Tensor> whitened = MaskedWhiten(advantages, mask);
  if (!whitened.ok()) return whitened.status();
  return Advantages{.advantages = *whitened, .returns = advantages + inputs.values};
}

[[maybe_unused]] const bool kRegistered = AdvantageRegistry::Get().Register(
    {.name = "gae",
     .formula = "whiten(A), A_t = delta_t + gamma lam A_next, delta_t = R_t + gamma V_next - V_t, both carried over "
                "masked tokens; returns = A + V",
     .source = "Schulman et al. 2015, eq. 16",
     .options = {{"gamma", 1.0, "discount a token"}, {"lam", 1.0, "1: whole returns, 0: one step"}},
     .needs = {"values"}},
    &Gae);

}  // namespace
}  // namespace troupe
