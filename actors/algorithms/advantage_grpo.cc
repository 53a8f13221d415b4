// SPDX-License-Identifier: Apache-2.0
// grpo: a response's score against its group.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> Grpo(const AdvantageInputs& inputs, const OptionValues& options) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  const double epsilon = options.Number("adv_epsilon");
  const std::string& scale = options.Text("scale_rewards");
  if (scale != "group" && scale != "batch" && scale != "none") {
    return UnknownName("scale_rewards", scale, {"group", "batch", "none"});
  }
  const bool divide = options.Flag("norm_adv_by_std_in_grpo") && scale != "none";
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    const at::Tensor scores = scored->scores.index_select(0, rows);
    const bool single = rows.numel() == 1;  // keeps its score: mean 0, deviation 1
    at::Tensor centred = single ? scores : scores - scores.mean();
    if (!single && scores.max().equal(scores.min())) centred = at::zeros_like(scores);  // whatever the mean rounds to
    if (divide && scale == "group") centred = centred / ((single ? at::ones_like(scores) : scores.std()) + epsilon);
    values.index_copy_(0, rows, centred);
  }
  if (divide && scale == "batch") values = values / (scored->scores.std() + epsilon);
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

[[maybe_unused]] const bool kRegistered = AdvantageRegistry::Get().Register(
    {.name = "grpo",
     .formula = "(s - mean_g) / (std_g + adv_epsilon), s the sum of a row's rewards, std with n - 1",
     .source = "Shao et al. 2024 (GRPO); without the deviation: Liu et al. 2025 (Dr. GRPO)",
     .options = {{"norm_adv_by_std_in_grpo", true, "divide by the deviation; false is Dr. GRPO"},
                 {"adv_epsilon", 1e-6, "added to the deviation"},
                 {"scale_rewards", std::string("group"), "whose deviation: group, batch, or none"}}},
    &Grpo);

}  // namespace
}  // namespace troupe
