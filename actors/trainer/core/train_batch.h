// SPDX-License-Identifier: Apache-2.0
// TrainBatch: the rows of one trainer step, whole groups, as the trainer core takes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

// Tokens [begin, end) of a response were made by the weights of trainer step `version`.
struct TrainVersionSpan {
  int64_t version = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

// One response of a group. Every per-token column is as long as response_ids.
struct TrainSample {
  std::string row_id;                           // names the row in errors and in StepMetrics::dropped_rows
  std::vector<int32_t> response_ids;            // the tokens generated, an end-of-sequence id included; may be empty
  std::vector<uint8_t> response_mask;           // 1: made by the policy and trained. Empty: all ones
  std::vector<float> rollout_logprobs;          // the engine's, at the job's temperature. Empty: not known
  std::vector<float> ref_logprobs;              // under the frozen model, same temperature. Empty: no KL term
  double reward = 0;                            // of the whole response
  bool truncated = false;                       // ended by length
  std::vector<TrainVersionSpan> version_spans;  // Empty: made by the trainer's present version
};

// The samples of one prompt. The prompt is computed once for all of them.
struct TrainGroup {
  std::string group_id;
  std::vector<int32_t> prompt_ids;  // at least one token
  std::vector<TrainSample> samples;
};

// One trainer step's rows: `train_batch_size` groups, fewer at the end of an epoch or after drops.
struct TrainBatch {
  std::vector<TrainGroup> groups;
};

}  // namespace troupe
