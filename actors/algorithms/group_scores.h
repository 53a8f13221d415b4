// SPDX-License-Identifier: Apache-2.0
// Scores of whole responses and their statistics by group, for outcome-based advantage estimators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/algorithms/advantages.h"

namespace troupe {

struct GroupScores {
  std::vector<double> scores;                      // [rows]: the sum of a row's token-level rewards
  std::map<int64_t, std::vector<int64_t>> groups;  // group -> its rows
};

// InvalidArgument if an input is undefined or of another shape.
absl::StatusOr<GroupScores> ScoresOf(const AdvantageInputs& inputs);

struct Spread {
  double mean = 0;
  double std = 0;  // Bessel-corrected; 0 for fewer than two
};
Spread SpreadOf(const std::vector<double>& values);

// One value a row, on each of its response tokens: [rows, tokens], of the mask's type.
at::Tensor OnEachToken(const std::vector<double>& row_values, const at::Tensor& response_mask);

}  // namespace troupe
