// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "actors/reward/reward_function.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

class WeightedReward final : public RewardScorer {
 public:
  struct Part {
    std::string name;
    double weight;
    std::unique_ptr<RewardScorer> scorer;
  };
  explicit WeightedReward(std::vector<Part> parts) : parts_(std::move(parts)) {}

  std::vector<RewardOutcome> Score(absl::Span<const RewardInput> inputs) override {
    std::vector<RewardOutcome> total(inputs.size());
    for (Part& part : parts_) {
      std::vector<RewardOutcome> outcomes = part.scorer->Score(inputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        total[i].score += part.weight * outcomes[i].score;
        for (auto& metric : outcomes[i].metrics) {
          if (total[i].metrics.size() < kRewardMetricsMax) total[i].metrics.insert(std::move(metric));
        }
        total[i].metrics[part.name] = outcomes[i].score;
        if (total[i].pred.empty()) total[i].pred = std::move(outcomes[i].pred);
        if (outcomes[i].fault <= total[i].fault) continue;
        total[i].fault = outcomes[i].fault;
        total[i].fault_text = part.name + ": " + outcomes[i].fault_text;
      }
    }
    for (RewardOutcome& outcome : total) {
      if (IsScore(outcome.score)) continue;
      outcome.score = 0;
      outcome.fault = RewardFault::kProgram;
      outcome.fault_text = "the weighted sum of the scores is too large for float32";
    }
    return total;
  }
  absl::Status broken() const override {
    for (const Part& part : parts_) TROUPE_RETURN_IF_ERROR(Annotate(part.scorer->broken(), part.name));
    return absl::OkStatus();
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace

bool IsScore(double score) { return std::abs(score) <= std::numeric_limits<float>::max(); }

absl::StatusOr<std::unique_ptr<RewardScorer>> MakeReward(const RewardFunction& function) {
  return function.function.empty() ? MakeProgramReward(function) : MakeBuiltinReward(function);
}

absl::StatusOr<std::unique_ptr<RewardScorer>> MakeWeightedReward(const std::vector<RewardFunction>& functions) {
  std::vector<WeightedReward::Part> parts;
  for (const RewardFunction& function : functions) {
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<RewardScorer> scorer, MakeReward(function));
    parts.push_back({function.name, function.weight, std::move(scorer)});
  }
  return std::make_unique<WeightedReward>(std::move(parts));
}

}  // namespace troupe
