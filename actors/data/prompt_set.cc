// SPDX-License-Identifier: Apache-2.0
#include "actors/data/prompt_set.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/data/text_lines.h"
#include "actors/model/files/checked_json.h"
#include "runtime/base/nearest.h"
#include "runtime/base/shown_text.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

constexpr size_t kFilteredLinesKept = 10;
// Characters of a list of columns that are shown.
constexpr size_t kShownMax = 300;
// Columns of a row, and keys of an object in one: they are looked up one by one.
constexpr size_t kColumnsMax = 4096;
constexpr char kVerlAnswerKey[] = "reward_model.ground_truth";

std::string TextOf(const ordered_json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// The column of that name; else, for "a.b", what stands under b in the column a. nullptr: there is none.
const ordered_json* Find(const ordered_json& row, std::string_view key) {
  if (auto it = row.find(std::string(key)); it != row.end()) return &*it;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    auto it = row.find(std::string(key.substr(0, dot)));
    if (it != row.end() && it->is_object()) return Find(*it, key.substr(dot + 1));
  }
  return nullptr;
}

absl::Status NoColumn(const ordered_json& row, const std::string& key, const std::string& option) {
  std::vector<std::string> names;
  std::string all;
  for (const auto& [name, value] : row.items()) {
    names.push_back(name);
    all += (all.empty() ? "" : ", ") + name;
    if (!value.is_object()) continue;
    for (const auto& [inner, unused] : value.items()) names.push_back(name + "." + inner);
  }
  std::string nearest = NearestOf(key, names);
  return absl::InvalidArgumentError("no column '" + key + "' (" + option + ")" +
                                    (nearest.empty() ? "" : ": did you mean '" + nearest + "'?") +
                                    "; there are: " + ShownText(all, kShownMax));
}

// One row of the file, checked, and its prompt as text.
class RowReader {
 public:
  RowReader(const Tokenizer& tokenizer, const PromptSetOptions& options) : tokenizer_(tokenizer), options_(options) {}

  absl::StatusOr<Prompt> Read(std::string_view line) const {
    TROUPE_ASSIGN_OR_RETURN(ordered_json row, ParseOrderedJson(line, "the line", {.keys_max = kColumnsMax}));
    if (!row.is_object()) return absl::InvalidArgumentError("expected a JSON object such as {\"prompt\": \"...\"}");
    const ordered_json* value = Find(row, options_.prompt_key);
    if (value == nullptr) return NoColumn(row, options_.prompt_key, "data.prompt_key");
    Prompt prompt;
    TROUPE_ASSIGN_OR_RETURN(prompt.text, PromptText(*value));
    TROUPE_ASSIGN_OR_RETURN(prompt.ids, tokenizer_.Encode(prompt.text));
    if (prompt.ids.empty()) return absl::InvalidArgumentError("the prompt is empty");
    TROUPE_ASSIGN_OR_RETURN(prompt.answer, Answer(row));
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

  absl::StatusOr<std::string> Answer(const ordered_json& row) const {
    if (options_.answer_key.empty()) return "";
    const ordered_json* value = Find(row, options_.answer_key);
    if (value == nullptr && options_.answer_key == kDefaultAnswerKey) value = Find(row, kVerlAnswerKey);
    if (value != nullptr) return TextOf(*value);
    if (!options_.answer_required && options_.answer_key == kDefaultAnswerKey) return "";
    return NoColumn(row, options_.answer_key, "data.answer_key; \"\": there are no answers");
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
