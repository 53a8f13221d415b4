// SPDX-License-Identifier: Apache-2.0
// Scores of whole responses by group, for outcome-based advantage estimators.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "actors/algorithms/advantages.h"

namespace troupe {

struct GroupScores {
  at::Tensor scores;               // [rows]: the sum of a row's token-level rewards, in their type
  std::vector<at::Tensor> groups;  // of each group its rows, int64
};

// InvalidArgument if an input is undefined or of another shape.
absl::StatusOr<GroupScores> ScoresOf(const AdvantageInputs& inputs);

// One value a row, on each of its response tokens: [rows, tokens].
at::Tensor OnEachToken(const at::Tensor& row_values, const at::Tensor& response_mask);

}  // namespace troupe
