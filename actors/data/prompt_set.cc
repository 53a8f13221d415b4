// SPDX-License-Identifier: Apache-2.0
#include "actors/data/prompt_set.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/data/text_lines.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

constexpr size_t kFilteredLinesKept = 10;

std::string TextOf(const ordered_json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// One row of the file, checked, and its prompt as text.
class RowReader {
 public:
  RowReader(const Tokenizer& tokenizer, const PromptSetOptions& options) : tokenizer_(tokenizer), options_(options) {}

  absl::StatusOr<Prompt> Read(std::string_view line) const {
    ordered_json row = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) return absl::InvalidArgumentError("expected a JSON object such as {\"prompt\": \"...\"}");
    auto it = row.find(options_.prompt_key);
    if (it == row.end()) {
      std::string keys;
      for (const auto& [key, value] : row.items()) keys += (keys.empty() ? "" : ", ") + key;
      return absl::InvalidArgumentError("no column '" + options_.prompt_key +
                                        "' (data.prompt_key); there are: " + keys);
    }
    Prompt prompt;
    TROUPE_ASSIGN_OR_RETURN(prompt.text, PromptText(*it));
    TROUPE_ASSIGN_OR_RETURN(prompt.ids, tokenizer_.Encode(prompt.text));
    if (prompt.ids.empty()) return absl::InvalidArgumentError("the prompt is empty");
    prompt.answer = Answer(row);
    row.erase(options_.prompt_key);
    row.erase(options_.answer_key);
    prompt.extra_json = row.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return prompt;
  }

 private:
  absl::StatusOr<std::string> PromptText(const ordered_json& value) const {
    if (value.is_string()) return value.get<std::string>();
    bool messages =
        value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const auto& message) {
          return message.is_object() && message.contains("role") && message.contains("content");
        });
    if (!messages) return absl::InvalidArgumentError("the prompt is neither a string nor a list of {role, content}");
    ordered_json conversation = value;
    if (!options_.system_prompt.empty() && conversation[0]["role"] != "system") {
      conversation.insert(conversation.begin(), ordered_json{{"role", "system"}, {"content", options_.system_prompt}});
    }
    ChatTemplateOptions chat;
    chat.chat_template = options_.chat_template;
    return tokenizer_.ApplyChatTemplate(conversation, chat);
  }

  std::string Answer(const ordered_json& row) const {
    if (auto it = row.find(options_.answer_key); it != row.end()) return TextOf(*it);
    if (auto it = row.find("reward_model"); it != row.end() && it->is_object() && it->contains("ground_truth")) {
      return TextOf((*it)["ground_truth"]);
    }
    return "";
  }

  const Tokenizer& tokenizer_;
  const PromptSetOptions& options_;
};

}  // namespace

absl::StatusOr<PromptSet> PromptSet::Load(const std::string& path, const Tokenizer& tokenizer,
                                          const PromptSetOptions& options) {
  PromptSet set;
  RowReader reader(tokenizer, options);
  uint64_t next_id = 0;
  TROUPE_RETURN_IF_ERROR(ReadTextLines(path, [&](std::string_view line, int64_t number) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return absl::OkStatus();
    uint64_t id = next_id++;
    absl::StatusOr<Prompt> prompt = reader.Read(line);
    if (!prompt.ok()) return Annotate(prompt.status(), path + ":" + std::to_string(number));
    prompt->id = id;
    auto length = std::ssize(prompt->ids);
    if (options.max_prompt_length > 0 && length > options.max_prompt_length) {
      if (options.filter_overlong) {
        ++set.filtered_;
        if (set.filtered_lines_.size() < kFilteredLinesKept) set.filtered_lines_.push_back(number);
        return absl::OkStatus();
      }
      if (options.truncation == "error") {
        return absl::InvalidArgumentError(path + ":" + std::to_string(number) + ": the prompt has " +
                                          std::to_string(length) + " tokens, more than " +
                                          std::to_string(options.max_prompt_length) +
                                          "; set data.filter_overlong_prompts: true to leave such prompts out, or "
                                          "data.truncation: left | right to cut them");
      }
      auto excess = length - options.max_prompt_length;
      auto begin = prompt->ids.begin();
      options.truncation == "left" ? prompt->ids.erase(begin, begin + excess)
                                   : prompt->ids.erase(prompt->ids.end() - excess, prompt->ids.end());
      ++set.truncated_;
    }
    set.prompts_.push_back(*std::move(prompt));
    return absl::OkStatus();
  }));
  if (!set.prompts_.empty()) return set;
  if (set.filtered_ > 0) {
    return absl::InvalidArgumentError(path + ": every prompt is longer than " +
                                      std::to_string(options.max_prompt_length) + " tokens (data.max_prompt_length)");
  }
  return absl::InvalidArgumentError(path + ": the data set is empty");
}

const Prompt* PromptSet::Find(uint64_t id) const {
  auto it =
      std::lower_bound(prompts_.begin(), prompts_.end(), id, [](const Prompt& p, uint64_t i) { return p.id < i; });
  return it != prompts_.end() && it->id == id ? &*it : nullptr;
}

}  // namespace troupe
