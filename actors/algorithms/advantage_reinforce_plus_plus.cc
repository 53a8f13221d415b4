// SPDX-License-Identifier: Apache-2.0
// reinforce_plus_plus: discounted returns, whitened over the batch; _baseline: scores less their group's mean,
// whitened.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "actors/algorithms/group_scores.h"
#include "actors/algorithms/masked.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> ReinforcePlusPlus(const AdvantageInputs& inputs, const OptionValues& options) {
  if (!inputs.token_level_rewards.defined() || !inputs.response_mask.defined()) {
    return absl::InvalidArgumentError("the estimator needs token_level_rewards and response_mask");
  }
  const at::Tensor& mask = inputs.response_mask;
  at::Tensor returns = at::zeros_like(inputs.token_level_rewards);
  at::Tensor running = at::zeros_like(inputs.token_level_rewards.select(1, 0));
  for (int64_t t = mask.size(1); t-- > 0;) {
    const at::Tensor next = inputs.token_level_rewards.select(1, t) + running * options.Number("gamma");
    const at::Tensor counts = mask.select(1, t);
    returns.select(1, t).copy_(next * counts);
    running = next * counts + running * (1 - counts);  // past tool output the return goes on unchanged
  }
  absl::StatusOr<at::Tensor> whitened = MaskedWhiten(returns, mask);
  if (!whitened.ok()) return whitened.status();
  return Advantages{.advantages = *whitened, .returns = returns};
}

absl::StatusOr<Advantages> WithBaseline(const AdvantageInputs& inputs, const OptionValues&) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    const at::Tensor scores = scored->scores.index_select(0, rows);
    values.index_copy_(0, rows, rows.numel() == 1 ? scores : scores - scores.mean());
  }
  absl::StatusOr<at::Tensor> whitened = MaskedWhiten(OnEachToken(values, inputs.response_mask), inputs.response_mask);
  if (!whitened.ok()) return whitened.status();
  return Advantages{.advantages = *whitened, .returns = *whitened};
}

constexpr const char* kSource = "Hu et al. 2025 (REINFORCE++)";

[[maybe_unused]] const bool kPlain =
    AdvantageRegistry::Get().Register({.name = "reinforce_plus_plus",
                                       .formula = "whiten(G), G_t = R_t + gamma G_next, carried over masked tokens",
                                       .source = kSource,
                                       .options = {{"gamma", 1.0, "discount a token"}}},
                                      &ReinforcePlusPlus);
[[maybe_unused]] const bool kBaseline =
    AdvantageRegistry::Get().Register({.name = "reinforce_plus_plus_baseline",
                                       .formula = "whiten(s - mean_g); a group of one keeps its score",
                                       .source = kSource,
                                       .options = {}},
                                      &WithBaseline);

}  // namespace
}  // namespace troupe
