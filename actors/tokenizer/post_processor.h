// SPDX-License-Identifier: Apache-2.0
// The special tokens that a tokenizer adds before and after a text, when asked to.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  // `json`: the post_processor of a tokenizer.json, or null. UNIMPLEMENTED names what is missing.
  static absl::StatusOr<PostProcessor> FromJson(const nlohmann::json& json);
};

}  // namespace troupe
