// SPDX-License-Identifier: Apache-2.0
// PromptSet: the prompts of a data file as token ids, with their answers and the other columns.
//
// A string prompt is raw text, nothing is added; a list of {role, content} goes through the chat template. The same
// file, options and tokenizer give the same set in every process, so a prompt is named by its number alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/tokenizer/tokenizer.h"

namespace troupe {

struct Prompt {
  uint64_t id = 0;           // number of its line in the file, from 0, blank lines not counted
  std::vector<int32_t> ids;  // at least one
  std::string text;          // what was tokenised
  std::string answer;        // as text; "" when the row has none
  std::string extra_json;    // the row's other columns as an object
};

inline constexpr char kDefaultAnswerKey[] = "answer";

// Keys with dots lead into columns that are objects: "reward_model.ground_truth".
struct PromptSetOptions {
  std::string prompt_key = "prompt";
  // At its default, verl's reward_model.ground_truth is looked for too, and a row may have none unless it is required.
  // Any other key must be there in each row. "": there are no answers.
  std::string answer_key = kDefaultAnswerKey;
  bool answer_required = false;
  std::string chat_template;
  std::string system_prompt;
  int64_t max_prompt_length = 0;     // tokens; > 0
  bool filter_overlong = true;       // leave them out, else `truncation`
  std::string truncation = "error";  // error | left | right: which end is cut
};

class PromptSet {
 public:
  // INVALID_ARGUMENT names file and line: no JSON object, no such column (and the nearest), a prompt that is too long
  // under truncation "error", no prompt left at all. Other errors as of ReadTextLines.
  static absl::StatusOr<PromptSet> Load(const std::string& path, const Tokenizer& tokenizer,
                                        const PromptSetOptions& options);

  const std::vector<Prompt>& prompts() const { return prompts_; }
  // nullptr when there is none of that number (also when it was left out).
  const Prompt* Find(uint64_t id) const;
  // Prompts that were left out, and the lines of the first of them, for people.
  int64_t filtered() const { return filtered_; }
  const std::vector<int64_t>& filtered_lines() const { return filtered_lines_; }
  int64_t truncated() const { return truncated_; }

 private:
  std::vector<Prompt> prompts_;          // by id
  std::vector<int64_t> filtered_lines_;  // at most 10
  int64_t filtered_ = 0;
  int64_t truncated_ = 0;
};

}  // namespace troupe
