// SPDX-License-Identifier: Apache-2.0
// What of a job decides the pipeline's course. Counts of prompts are groups; a group has `samples` rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/stream/row_index.h"

namespace troupe {

struct PipelineOptions {
  // The stream.
  int64_t train_batch_size = 1;  // groups of a step
  int64_t samples = 1;           // rollout.n
  int64_t max_staleness = 0;
  bool train_stale = false;  // algorithm.stale: train
  double max_dropped_fraction = 0.5;

  // The roles, as the job began: rollouts may be added, scorers added and taken away.
  int64_t rollout_replicas = 1;
  int64_t reward_replicas = 1;
  int64_t reference_replicas = 0;  // 0: no KL coefficient, so no reference

  // The course.
  int64_t total_steps = 0;
  int64_t save_freq = 0;  // 0: only at the end
  int64_t test_freq = 0;  // 0: never
  bool val_before_train = false;
  int64_t val_samples = 0;  // trainer.val_n, beside one greedy sample
  std::vector<uint64_t> val_prompts;
  std::string checkpoints_dir;  // holds step_N

  // While it is written its name ends in ".tmp" (actors/trainer/core/checkpoint.h).
  std::string CheckpointDir(int64_t step) const { return checkpoints_dir + "/step_" + std::to_string(step); }

  RowIndexOptions IndexOptions() const {
    RowIndexOptions index;
    index.groups_per_batch = train_batch_size;
    index.rows_per_group_min = samples < 2 ? 1 : 2;
    index.max_staleness = max_staleness;
    index.total_steps = total_steps;
    index.columns = {"reward"};
    if (reference_replicas > 0) index.columns.push_back("ref_logprobs");
    return index;
  }
};

}  // namespace troupe
