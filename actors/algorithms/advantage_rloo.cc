// SPDX-License-Identifier: Apache-2.0
// rloo: a response's score against the mean of the others of its group.
#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

absl::StatusOr<Advantages> LeaveOneOut(const AdvantageInputs& inputs, bool single_keeps_score) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  std::vector<double> values(scored->scores.size());
  for (const auto& [group, rows] : scored->groups) {
    double mean = 0;
    const double count = static_cast<double>(rows.size());
    for (int64_t row : rows) mean += scored->scores[static_cast<size_t>(row)] / count;
    for (int64_t row : rows) {
      const double score = scored->scores[static_cast<size_t>(row)];
      const double alone = single_keeps_score ? score : 0;
      values[static_cast<size_t>(row)] = rows.size() == 1 ? alone : (score - mean) * count / (count - 1);
    }
  }
  const at::Tensor advantages = OnEachToken(values, inputs.response_mask);
  return Advantages{.advantages = advantages, .returns = advantages};
}

absl::StatusOr<Advantages> Rloo(const AdvantageInputs& inputs, const OptionValues&) {
  return LeaveOneOut(inputs, /*single_keeps_score=*/true);
}
absl::StatusOr<Advantages> RlooVectorized(const AdvantageInputs& inputs, const OptionValues&) {
  return LeaveOneOut(inputs, /*single_keeps_score=*/false);
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
