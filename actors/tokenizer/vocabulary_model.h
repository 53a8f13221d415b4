// SPDX-License-Identifier: Apache-2.0
// From a piece of text to token ids: the part of a tokenizer that holds the vocabulary.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

// Ids up to here: far above any vocabulary, so that a hostile id cannot make a large table.
inline constexpr int64_t kTokenIdMax = int64_t{1} << 22;

using Vocabulary = std::unordered_map<std::string, int32_t>;

// Any thread may use it.
class VocabularyModel {
 public:
  // `json`: the model of a tokenizer.json (BPE over bytes, or WordLevel). `byte_level`: whether the pre-tokenizer
  // spells bytes as GPT-2 does. UNIMPLEMENTED names what is missing.
  static absl::StatusOr<std::unique_ptr<VocabularyModel>> FromJson(const nlohmann::json& json, bool byte_level);
  virtual ~VocabularyModel() = default;

  // Appends the ids of `piece` (raw text, not empty).
  virtual absl::Status Encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;

  // As the file spells them.
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit VocabularyModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  Vocabulary vocabulary_;
};

}  // namespace troupe
