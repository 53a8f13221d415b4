// SPDX-License-Identifier: Apache-2.0
// Reading the model of a tokenizer.json; word-level models.
#include "actors/tokenizer/vocabulary_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/byte_level_bpe.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

// Every piece is a token, or the unknown token.
class WordLevel : public VocabularyModel {
 public:
  WordLevel(Vocabulary vocabulary, std::optional<int32_t> unknown)
      : VocabularyModel(std::move(vocabulary)), unknown_(unknown) {}

  absl::Status Encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    auto found = vocabulary_.find(std::string(piece));
    if (found != vocabulary_.end()) {
      ids.push_back(found->second);
    } else if (unknown_) {
      ids.push_back(*unknown_);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("the vocabulary has no token '", std::string(piece.substr(0, 100)),
                                                     "' and the tokenizer no unknown token"));
    }
    return absl::OkStatus();
  }

 private:
  std::optional<int32_t> unknown_;
};

absl::StatusOr<Vocabulary> ParseVocabulary(const Json& json) {
  Vocabulary vocabulary;
  vocabulary.reserve(json.size());
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kTokenIdMax)) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: the id of token '", token, "' is ", id.dump()));
    }
    vocabulary.emplace(token, id.get<int32_t>());
  }
  if (vocabulary.empty()) return absl::InvalidArgumentError("tokenizer.json: the vocabulary is empty");
  return vocabulary;
}

absl::StatusOr<std::vector<TokenMerge>> ParseMerges(const Json& json) {
  std::vector<TokenMerge> merges;
  merges.reserve(json.size());
  for (const Json& merge : json) {
    if (merge.is_array() && merge.size() == 2) {
      merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
      continue;
    }
    std::string text = merge.get<std::string>();
    size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.json: merge ", merges.size(), " is no pair: '", text.substr(0, 100), "'"));
    }
    merges.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return merges;
}

bool IsSet(const Json& json, const char* key) {
  if (!json.contains(key)) return false;
  const Json& value = json.at(key);
  return !value.is_null() && value != false && value != "" && value != 0.0;
}

absl::StatusOr<std::unique_ptr<VocabularyModel>> ParseBpe(const Json& json, bool byte_level) {
  if (!byte_level || IsSet(json, "byte_fallback")) {
    return absl::UnimplementedError(
        "tokenizer.json: BPE over characters (SentencePiece) is not supported; supported: BPE over bytes, with a "
        "ByteLevel pre-tokenizer");
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (IsSet(json, key))
      return absl::UnimplementedError(absl::StrCat("tokenizer.json: BPE with ", key, " is not supported"));
  }
  TROUPE_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(json.at("vocab")));
  TROUPE_ASSIGN_OR_RETURN(std::vector<TokenMerge> merges, ParseMerges(json.at("merges")));
  return MakeByteLevelBpe(std::move(vocabulary), merges, json.value("ignore_merges", false));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VocabularyModel>> VocabularyModel::FromJson(const Json& json, bool byte_level) {
  std::string type = json.contains("type") ? json.at("type").get<std::string>() : json.contains("merges") ? "BPE" : "";
  if (type == "BPE") return ParseBpe(json, byte_level);
  if (type != "WordLevel") {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.json: the model '", type, "' is not supported; supported: BPE over bytes, WordLevel"));
  }
  TROUPE_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(json.at("vocab")));
  std::optional<int32_t> unknown;
  auto found = vocabulary.find(json.value("unk_token", ""));
  if (found != vocabulary.end()) unknown = found->second;
  return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
}

}  // namespace troupe
