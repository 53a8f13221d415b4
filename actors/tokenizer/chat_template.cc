// SPDX-License-Identifier: Apache-2.0
// Renders a model's chat template as Transformers' apply_chat_template does.
#include "actors/tokenizer/chat_template.h"

#include "actors/tokenizer/jinja/template.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe {

absl::StatusOr<std::string> RenderChatTemplate(const std::string& chat_template, const nlohmann::ordered_json& messages,
                                               const ChatTemplateOptions& options,
                                               const nlohmann::ordered_json& special_tokens) {
  if (!messages.is_array()) return absl::InvalidArgumentError("a conversation is a list of messages");
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<jinja::Template> parsed, jinja::Template::Parse(chat_template));
  nlohmann::ordered_json variables = special_tokens;
  variables["tools"] = nullptr;  // as Transformers sets them where they are not given
  variables["documents"] = nullptr;
  if (options.arguments != nullptr) {
    if (!options.arguments->is_object()) return absl::InvalidArgumentError("template arguments are no object");
    variables.update(*options.arguments);
  }
  variables["messages"] = messages;
  variables["add_generation_prompt"] = options.add_generation_prompt;
  return parsed->Render(variables, {.now = WallNow(), .limits = {}});
}

}  // namespace troupe
