// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/group_scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cmath>

namespace troupe {

absl::StatusOr<GroupScores> ScoresOf(const AdvantageInputs& inputs) {
  const at::Tensor& rewards = inputs.token_level_rewards;
  if (!rewards.defined() || !inputs.response_mask.defined() || !inputs.index.defined()) {
    return absl::InvalidArgumentError("the estimator needs token_level_rewards, response_mask and index");
  }
  if (rewards.dim() != 2 || rewards.sizes() != inputs.response_mask.sizes() ||
      inputs.index.numel() != rewards.size(0)) {
    return absl::InvalidArgumentError("token_level_rewards and response_mask must be [rows, tokens], index [rows]");
  }
  GroupScores result;
  const at::Tensor sums = rewards.detach().to(at::kDouble).sum(-1).contiguous();
  result.scores.assign(sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel());
  const at::Tensor index = inputs.index.to(at::kLong).contiguous();
  for (int64_t row = 0; row < index.numel(); ++row) {
    result.groups[index.const_data_ptr<int64_t>()[row]].push_back(row);
  }
  return result;
}

Spread SpreadOf(const std::vector<double>& values) {
  Spread spread;
  if (values.empty()) return spread;
  const double count = static_cast<double>(values.size());
  for (double value : values) spread.mean += value / count;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.std = std::sqrt(squares / (count - 1));
  return spread;
}

at::Tensor OnEachToken(const std::vector<double>& row_values, const at::Tensor& response_mask) {
  const at::Tensor column =
      at::from_blob(const_cast<double*>(row_values.data()), {static_cast<int64_t>(row_values.size()), 1}, at::kDouble);
  return column.to(response_mask.scalar_type()) * response_mask;
}

}  // namespace troupe
