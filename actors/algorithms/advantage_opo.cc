// SPDX-License-Identifier: Apache-2.0
// opo: a response's score less its group's mean weighted by length.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> Opo(const AdvantageInputs& inputs, const OptionValues&) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  const at::Tensor lengths = inputs.response_mask.sum(-1);
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    const at::Tensor scores = scored->scores.index_select(0, rows);
    const at::Tensor weights = lengths.index_select(0, rows);
    if (weights.sum().item<double>() == 0) continue;  // empty responses only: nothing to give an advantage to
    const at::Tensor baseline = (weights * scores).sum() / weights.sum();
    values.index_copy_(0, rows, rows.numel() == 1 ? scores : scores - baseline);
  }
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

[[maybe_unused]] const bool kRegistered =
    AdvantageRegistry::Get().Register({.name = "opo",
                                       .formula = "s - sum_g(length s) / sum_g(length); a group of one keeps its score",
                                       .source = "Hao et al. 2025 (OPO)",
                                       .options = {}},
                                      &Opo);

}  // namespace
}  // namespace troupe
