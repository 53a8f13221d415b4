// SPDX-License-Identifier: Apache-2.0
#include "actors/algorithms/group_scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <cstdint>
#include <map>

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
  const at::Tensor index = inputs.index.to(at::kLong).contiguous();
  std::map<int64_t, std::vector<int64_t>> rows;
  for (int64_t row = 0; row < index.numel(); ++row) rows[index.const_data_ptr<int64_t>()[row]].push_back(row);
  GroupScores result{.scores = rewards.detach().sum(-1), .groups = {}};
  for (const auto& [group, members] : rows) result.groups.push_back(at::tensor(members, at::kLong));
  return result;
}

at::Tensor OnEachToken(const at::Tensor& row_values, const at::Tensor& response_mask) {
  return row_values.unsqueeze(-1) * response_mask;
}

}  // namespace troupe
