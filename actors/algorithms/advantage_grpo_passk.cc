// SPDX-License-Identifier: Apache-2.0
// grpo_passk: only the best response of a group has an advantage, by how much it beats the second.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> GrpoPassK(const AdvantageInputs& inputs, const OptionValues& options) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    if (rows.numel() < 2) return absl::InvalidArgumentError("grpo_passk needs at least 2 samples a group");
    const at::Tensor scores = scored->scores.index_select(0, rows);
    const auto [best, at_row] = scores.topk(2);
    at::Tensor lead = best.select(0, 0) - best.select(0, 1);
    if (options.Flag("norm_adv_by_std_in_grpo")) lead = lead / (scores.std() + options.Number("adv_epsilon"));
    values.index_copy_(0, rows.index_select(0, at_row.slice(0, 0, 1)), lead.reshape({1}));
  }
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

[[maybe_unused]] const bool kRegistered = AdvantageRegistry::Get().Register(
    {.name = "grpo_passk",
     .formula = "best of the group: (max - second) / (std_g + adv_epsilon); the others 0",
     .source = "Chen et al. 2025 (pass@k training)",
     .options = {{"norm_adv_by_std_in_grpo", true, "divide by the deviation"},
                 {"adv_epsilon", 1e-6, "added to the deviation"}}},
    &GrpoPassK);

}  // namespace
}  // namespace troupe
