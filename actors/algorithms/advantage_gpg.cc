// SPDX-License-Identifier: Apache-2.0
// gpg: a response's score less its group's mean, scaled up for the responses whose score is zero.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> Gpg(const AdvantageInputs& inputs, const OptionValues& options) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  const int64_t nonzero = scored->scores.count_nonzero().item<int64_t>();
  const double alpha = static_cast<double>(scored->scores.numel()) / static_cast<double>(std::max<int64_t>(1, nonzero));
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    const at::Tensor scores = scored->scores.index_select(0, rows);
    const at::Tensor centred = rows.numel() == 1 ? scores : scores - scores.mean();
    values.index_copy_(0, rows, centred * alpha / options.Number("f_norm"));
  }
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

[[maybe_unused]] const bool kRegistered = AdvantageRegistry::Get().Register(
    {.name = "gpg",
     .formula = "alpha (s - mean_g) / f_norm, alpha = rows / rows with s != 0; a group of one keeps its score",
     .source = "Chu et al. 2025 (GPG)",
     .options = {{"f_norm", 1.0, "divisor"}}},
    &Gpg);

}  // namespace
}  // namespace troupe
