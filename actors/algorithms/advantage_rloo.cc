// SPDX-License-Identifier: Apache-2.0
// rloo: a response's score against the mean of the others of its group.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

// value(scores, n): the advantages of a group of n > 1 responses; `alone` those of a group of one.
template <class Value, class Alone>
absl::StatusOr<Advantages> ByGroup(const AdvantageInputs& inputs, Value value, Alone alone) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  at::Tensor values = at::zeros_like(scored->scores);
  for (const at::Tensor& rows : scored->groups) {
    const at::Tensor scores = scored->scores.index_select(0, rows);
    const bool equal = rows.numel() > 1 && scores.max().equal(scores.min());  // exactly 0, whatever the mean rounds to
    if (!equal) values.index_copy_(0, rows, rows.numel() > 1 ? value(scores, rows.numel()) : alone(scores));
  }
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

absl::StatusOr<Advantages> Rloo(const AdvantageInputs& inputs, const OptionValues&) {
  return ByGroup(
      inputs, [](const at::Tensor& scores, int64_t n) { return scores * n / (n - 1) - scores.mean() * n / (n - 1); },
      [](const at::Tensor& score) { return score; });
}

absl::StatusOr<Advantages> RlooVectorized(const AdvantageInputs& inputs, const OptionValues&) {
  return ByGroup(
      inputs, [](const at::Tensor& scores, int64_t n) { return (scores * n - scores.sum()) / (n - 1); },
      [](const at::Tensor& score) { return at::zeros_like(score); });
}

constexpr const char* kSource = "Ahmadian et al. 2024 (RLOO)";

[[maybe_unused]] const bool kRloo =
    AdvantageRegistry::Get().Register({.name = "rloo",
                                       .formula = "(s - mean_g) n / (n - 1); a group of one keeps its score",
                                       .source = kSource,
                                       .options = {}},
                                      &Rloo);
[[maybe_unused]] const bool kRlooVectorized =
    AdvantageRegistry::Get().Register({.name = "rloo_vectorized",
                                       .formula = "(s - mean_g) n / (n - 1); a group of one gets 0",
                                       .source = kSource,
                                       .options = {}},
                                      &RlooVectorized);

}  // namespace
}  // namespace troupe
