// SPDX-License-Identifier: Apache-2.0
// BatchRows: the rows of a train batch that can be trained, laid out flat, and those that were refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/model_config.h"
#include "actors/trainer/core/train_batch.h"
#include "actors/trainer/core/trainer_options.h"

namespace troupe {

// Points into the batch, which must outlive it. Columns of all rows lie one after another: row r has the tokens
// [rows[r].begin, rows[r].begin + length) of every flat column.
struct BatchRows {
  struct Row {
    const TrainSample* sample = nullptr;
    size_t group = 0;   // of `groups`
    int64_t begin = 0;  // of its tokens in flat columns
    int64_t length = 0;
    int64_t trained = 0;  // tokens under its mask
  };
  struct Group {
    const TrainGroup* source = nullptr;
    size_t first_row = 0;  // its rows are [first_row, last_row)
    size_t last_row = 0;
  };

  std::vector<Row> rows;
  std::vector<Group> groups;
  int64_t tokens = 0;                     // length of a flat column
  std::vector<std::string> dropped_rows;  // NaN or Inf in a column, or left alone in their group by such
  int64_t empty_rows = 0;                 // no response tokens: outside the group's statistics, nothing to train
};

// InvalidArgument, naming the row, for what no pipeline may send: a column of another length, a token outside the
// vocabulary, a row beyond the context or the token budget, a column that the options need and the row lacks.
absl::StatusOr<BatchRows> SelectRows(const TrainBatch& batch, const ModelConfig& config, const TrainerOptions& options);

// Whether the options ask for rollout_logprobs, or ref_logprobs, on every row.
bool NeedsRolloutLogprobs(const TrainerOptions& options);
bool NeedsRefLogprobs(const TrainerOptions& options);

}  // namespace troupe
