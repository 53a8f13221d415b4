// SPDX-License-Identifier: Apache-2.0
// How a tokenizer cuts text into the pieces inside which its model works.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

// Pieces of a text: views into it, or into `owned` where a step changed them. Never empty ones.
struct TextPieces {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
};

// Immutable; any thread may use it.
class PreTokenizer {
 public:
  // `json`: the pre_tokenizer of a tokenizer.json, or null (one piece). UNIMPLEMENTED names what is missing.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> FromJson(const nlohmann::json& json);
  virtual ~PreTokenizer() = default;

  // Cuts each piece further. RESOURCE_EXHAUSTED: a hostile expression took too many steps.
  virtual absl::Status Split(TextPieces& pieces) const = 0;

  // Whether the model sees bytes in GPT-2's spelling.
  virtual bool IsByteLevel() const { return false; }
};

}  // namespace troupe
