// SPDX-License-Identifier: Apache-2.0
// grpo: a response's score against its group.
#include "actors/algorithms/group_scores.h"

namespace troupe {
namespace {

std::vector<double> ScoresAt(const std::vector<double>& scores, const std::vector<int64_t>& rows) {
  std::vector<double> values;
  for (int64_t row : rows) values.push_back(scores[static_cast<size_t>(row)]);
  return values;
}

absl::StatusOr<Advantages> Grpo(const AdvantageInputs& inputs, const OptionValues& options) {
  absl::StatusOr<GroupScores> scored = ScoresOf(inputs);
  if (!scored.ok()) return scored.status();
  const double epsilon = options.Number("adv_epsilon");
  const std::string& scale = options.Text("scale_rewards");
  if (scale != "group" && scale != "batch" && scale != "none") {
    return UnknownName("scale_rewards", scale, {"group", "batch", "none"});
  }
  const bool divide = options.Flag("norm_adv_by_std_in_grpo") && scale != "none";
  const double batch_std = SpreadOf(scored->scores).std;
  std::vector<double> values(scored->scores.size());
  for (const auto& [group, rows] : scored->groups) {
    Spread spread = SpreadOf(ScoresAt(scored->scores, rows));
    if (rows.size() == 1) spread = {.mean = 0, .std = 1};  // a group of one keeps its score
    const double divisor = (scale == "batch" ? batch_std : spread.std) + epsilon;
    for (int64_t row : rows) {
      const double centred = scored->scores[static_cast<size_t>(row)] - spread.mean;
      values[static_cast<size_t>(row)] = divide ? centred / divisor : centred;
    }
  }
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
