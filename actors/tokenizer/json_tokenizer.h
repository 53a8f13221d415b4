// SPDX-License-Identifier: Apache-2.0
// A tokenizer made from the values of tokenizer.json and tokenizer_config.json.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actors/tokenizer/tokenizer.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

struct TokenizerFiles {
  const nlohmann::json& tokenizer;       // tokenizer.json
  std::string tokenizer_text;            // the same as it was written; empty: written anew when asked for
  const nlohmann::ordered_json& config;  // tokenizer_config.json, or an empty object
};

// INVALID_ARGUMENT or UNIMPLEMENTED name the part of the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(const TokenizerFiles& files);

}  // namespace troupe
