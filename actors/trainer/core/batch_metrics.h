// SPDX-License-Identifier: Apache-2.0
// Metrics that come from the batch itself, by verl's names.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/span.h"
#include "actors/trainer/core/batch_rows.h"
#include "actors/trainer/core/objective.h"

namespace troupe {

// critic/*, response_length/*, prompt_length/*, staleness/*, frac_reward_zero_std, response/aborted_ratio,
// perf/total_num_tokens. `step`: the trainer's version when it consumes the batch.
void AddBatchMetrics(const BatchRows& batch, const BatchAdvantages& advantages, int64_t step,
                     std::map<std::string, double>& values);

// training/rollout_probs_diff_*, training/rollout_actor_probs_pearson_corr and rollout_corr/*, over the rows that were
// scored and carry rollout_logprobs; nothing if there are none. old_logprobs: flat; scored: [rows], 0 or 1.
void AddRolloutMetrics(const BatchRows& batch, absl::Span<const float> old_logprobs, absl::Span<const uint8_t> scored,
                       double threshold, std::map<std::string, double>& values);

}  // namespace troupe
