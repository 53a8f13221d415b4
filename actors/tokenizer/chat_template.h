// SPDX-License-Identifier: Apache-2.0
// Renders a model's chat template as Transformers' apply_chat_template does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actors/tokenizer/tokenizer.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

// `special_tokens`: an object of bos_token, eos_token...
absl::StatusOr<std::string> RenderChatTemplate(const std::string& chat_template, const nlohmann::ordered_json& messages,
                                               const ChatTemplateOptions& options,
                                               const nlohmann::ordered_json& special_tokens);

}  // namespace troupe
