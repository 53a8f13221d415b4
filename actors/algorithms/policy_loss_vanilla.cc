// SPDX-License-Identifier: Apache-2.0
// vanilla: PPO's clipped objective with separate bounds (clip-higher) and dual clip for negative advantages.
#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include "actors/algorithms/masked.h"
#include "actors/algorithms/policy_loss.h"

namespace troupe {
namespace {

constexpr double kLogRatioMax = 20;  // beyond it the ratio is held and the gradient is zero

double MeanOf(const at::Tensor& values, const at::Tensor& mask) {
  return MaskedMean(values.detach().to(mask.scalar_type()), mask).item<double>();
}

absl::StatusOr<PolicyLoss> Vanilla(const PolicyLossInputs& inputs, const OptionValues& options) {
  const double clip_ratio_c = options.Number("clip_ratio_c");
  if (clip_ratio_c <= 1) return absl::InvalidArgumentError("clip_ratio_c must be greater than 1");
  const at::Tensor& mask = inputs.response_mask;
  const at::Tensor& advantages = inputs.advantages;
  const at::Tensor log_ratio = (inputs.log_prob - inputs.old_log_prob).clamp(-kLogRatioMax, kLogRatioMax);
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor unclipped = -advantages * ratio;
  const at::Tensor clipped =
      -advantages * ratio.clamp(1 - options.Number("clip_ratio_low"), 1 + options.Number("clip_ratio_high"));
  const at::Tensor larger = at::maximum(unclipped, clipped);
  const at::Tensor bound = -advantages * clip_ratio_c;
  const at::Tensor negative = advantages < 0;
  at::Tensor losses = at::where(negative, at::minimum(bound, larger), larger);
  if (inputs.rollout_is_weights.defined()) losses = losses * inputs.rollout_is_weights;

  absl::StatusOr<at::Tensor> loss = AggregateLoss(losses, mask, inputs.aggregation);
  if (!loss.ok()) return loss.status();
  PolicyLoss result{.loss = *loss, .metrics = {}};
  result.metrics["actor/pg_clipfrac"] = MeanOf(clipped > unclipped, mask);
  result.metrics["actor/pg_clipfrac_lower"] = MeanOf((larger > bound).logical_and(negative), mask);
  result.metrics["actor/ppo_kl"] = MeanOf(-log_ratio, mask);
  return result;
}

[[maybe_unused]] const bool kRegistered = PolicyLossRegistry::Get().Register(
    {.name = "vanilla",
     .formula = "max(-A r, -A clip(r, 1 - clip_ratio_low, 1 + clip_ratio_high)); for A < 0 at most -A clip_ratio_c",
     .source = "Schulman et al. 2017 (PPO); Ye et al. 2020 (dual clip); Yu et al. 2025 (clip-higher)",
     .options = {{"clip_ratio_low", 0.2, "how far below 1 the ratio may go"},
                 {"clip_ratio_high", 0.2, "how far above 1 the ratio may go"},
                 {"clip_ratio_c", 3.0, "largest ratio that counts where the advantage is negative"}}},
    &Vanilla);

}  // namespace
}  // namespace troupe
