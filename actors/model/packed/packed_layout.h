// SPDX-License-Identifier: Apache-2.0
// Which token stands where in a packed pass: groups, segments, positions, and what is scored from which row.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/model_config.h"
#include "actors/model/packed/packed_logprobs.h"

namespace troupe::packed {

struct Segment {
  int64_t begin = 0;  // first row of the packed tokens
  int64_t length = 0;
};

struct GroupRows {
  Segment prompt;
  std::vector<Segment> responses;  // without the last token of each response, which nothing is scored from
};

// The logits of one row score one token of each response (the prompt's last row), or one token.
struct ScoredRow {
  int64_t row = 0;            // of the packed tokens
  int64_t targets_begin = 0;  // into PackedLayout::targets
  int64_t targets_end = 0;
};
struct Target {
  int32_t token = 0;
  int64_t output = 0;  // index into PackedScores
};

struct PackedLayout {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<GroupRows> groups;
  std::vector<ScoredRow> scored;
  std::vector<Target> targets;
  int64_t outputs = 0;

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

// InvalidArgument for an empty prompt, a token outside the vocabulary, or a row beyond the context.
absl::StatusOr<PackedLayout> LayOut(absl::Span<const PackedGroup> groups, const ModelConfig& config);

}  // namespace troupe::packed
