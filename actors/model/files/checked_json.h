// SPDX-License-Identifier: Apache-2.0
// JSON from files that may be hostile: bounded depth and size, no key twice, errors with line and column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

struct JsonLimits {
  size_t depth_max = 64;          // nlohmann's serialiser recurses, so depth must be bounded
  size_t nodes_max = 16'000'000;  // a tokenizer of 256k tokens and 500k merges has about 2 million; 64 bytes each
  size_t keys_max = 16'000'000;   // of one object
};

// `what` names the text in errors (a path). INVALID_ARGUMENT: no JSON, or over a limit.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& what, const JsonLimits& limits = {});

// The same, keeping the order of keys. Look-up is linear, and so reading is quadratic: bound keys_max where the text is
// not trusted.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(std::string_view text, const std::string& what,
                                                        const JsonLimits& limits = {});

}  // namespace troupe
