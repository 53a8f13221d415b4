// SPDX-License-Identifier: Apache-2.0
// Cutting a mini-batch into micro-batches by a token budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace troupe {

// What a group costs: its prompt once and each response.
struct GroupTokens {
  int64_t prompt = 0;
  std::vector<int64_t> responses;
};

// Responses [begin, end) of one group; the prompt is computed again for each piece.
struct GroupPiece {
  size_t group = 0;
  size_t begin = 0;
  size_t end = 0;
};
using MicroBatch = std::vector<GroupPiece>;

// In order, each filled as far as the next response fits; a group is cut only where it must be.
// InvalidArgument names (as `group` and index) a response that with its prompt is longer than the budget.
absl::StatusOr<std::vector<MicroBatch>> CutByTokens(const std::vector<GroupTokens>& groups, int64_t tokens_max);

}  // namespace troupe
