// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text before it is split: Unicode normal forms, lower case, accents.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

// Immutable; any thread may use it.
class Normalizer {
 public:
  // `json`: the normalizer of a tokenizer.json, or null (text stays as it is). UNIMPLEMENTED names what is missing.
  static absl::StatusOr<std::unique_ptr<Normalizer>> FromJson(const nlohmann::json& json);
  virtual ~Normalizer() = default;

  // `text` is UTF-8, and so is the result.
  virtual std::string Apply(std::string_view text) const = 0;
  virtual bool IsIdentity() const { return false; }
};

}  // namespace troupe
