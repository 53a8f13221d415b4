// SPDX-License-Identifier: Apache-2.0
#include "actors/data/job_prompts.h"

#include "runtime/base/status.h"

namespace troupe {

absl::StatusOr<JobPrompts> LoadJobPrompts(const JobConfig& config, const Tokenizer& tokenizer, int64_t context_tokens) {
  PromptSetOptions options;
  options.prompt_key = config.data.prompt_key;
  options.answer_key = config.data.answer_key;
  // The built-in functions compare with the answer; a program may have no use for one.
  for (const RewardFunction& function : config.reward.functions) options.answer_required |= !function.function.empty();
  options.chat_template = config.data.chat_template;
  options.system_prompt = config.data.system_prompt;
  options.filter_overlong = config.data.filter_overlong_prompts;
  options.truncation = config.data.truncation;
  int64_t room = context_tokens - config.rollout.response_length;
  if (room < 1) {
    return absl::InvalidArgumentError("rollout.response_length " + std::to_string(config.rollout.response_length) +
                                      " leaves no room for a prompt: the model's context is " +
                                      std::to_string(context_tokens) + " tokens");
  }
  options.max_prompt_length = config.data.max_prompt_length > 0 ? std::min(config.data.max_prompt_length, room) : room;
  JobPrompts prompts;
  TROUPE_ASSIGN_OR_RETURN(prompts.train, PromptSet::Load(config.data.train, tokenizer, options));
  if (!config.data.val.empty()) {
    TROUPE_ASSIGN_OR_RETURN(prompts.val, PromptSet::Load(config.data.val, tokenizer, options));
  }
  return prompts;
}

}  // namespace troupe
