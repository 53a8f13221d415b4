// SPDX-License-Identifier: Apache-2.0
// The prompts of a job: training and validation sets read as the job file says, the same in every process.
#pragma once

#include "absl/status/statusor.h"
#include "actors/data/prompt_set.h"
#include "runtime/job/job_config.h"

namespace troupe {

struct JobPrompts {
  PromptSet train;
  PromptSet val;  // empty when the job has none
};

// `context_tokens`: the model's; a prompt may have what response_length leaves of it, or data.max_prompt_length.
// INVALID_ARGUMENT when response_length leaves nothing.
absl::StatusOr<JobPrompts> LoadJobPrompts(const JobConfig& config, const Tokenizer& tokenizer, int64_t context_tokens);

}  // namespace troupe
