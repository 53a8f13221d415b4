// SPDX-License-Identifier: Apache-2.0
// Regular expressions of pre-tokenizers (Oniguruma's syntax where published tokenizers use it) on PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// Immutable; any thread may use it.
class Regex {
 public:
  // Unicode classes and properties. INVALID_ARGUMENT: not a valid expression, with the reason and position.
  static absl::StatusOr<std::unique_ptr<Regex>> Compile(const std::string& pattern);
  // Matches exactly `text`.
  static absl::StatusOr<std::unique_ptr<Regex>> Literal(const std::string& text);
  ~Regex();

  // [begin, end) of every match in `text` (valid UTF-8), left to right without overlap; empty ones too.
  // RESOURCE_EXHAUSTED: matching took too many steps.
  absl::Status FindAll(std::string_view text, std::vector<std::pair<size_t, size_t>>& matches) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

}  // namespace troupe
