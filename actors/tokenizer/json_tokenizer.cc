// SPDX-License-Identifier: Apache-2.0
// A tokenizer made from tokenizer.json: added tokens, normaliser, pre-tokenizer, model, post-processor, decoder.
#include "actors/tokenizer/json_tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/added_tokens.h"
#include "actors/tokenizer/byte_level.h"
#include "actors/tokenizer/chat_template.h"
#include "actors/tokenizer/normalizer.h"
#include "actors/tokenizer/post_processor.h"
#include "actors/tokenizer/pre_tokenizer.h"
#include "actors/tokenizer/utf8.h"
#include "actors/tokenizer/vocabulary_model.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// null where the key is missing.
const Json& Member(const Json& json, const char* key) {
  static const Json null;
  return json.contains(key) ? json.at(key) : null;
}

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const Json& json) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  for (const Json& item : json) {
    const Json& id = item.at("id");
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kTokenIdMax)) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.json: an added token has the id ", id.dump()));
    }
    tokens.push_back({.id = id.get<int32_t>(),
                      .content = item.at("content").get<std::string>(),
                      .single_word = item.value("single_word", false),
                      .lstrip = item.value("lstrip", false),
                      .rstrip = item.value("rstrip", false),
                      .normalized = item.value("normalized", false),
                      .special = item.value("special", false)});
  }
  return tokens;
}

// ByteLevel, or Fuse: tokens are joined. True: tokens spell bytes.
absl::StatusOr<bool> ParseDecoder(const Json& json) {
  std::string type = json.is_object() ? json.at("type").get<std::string>() : "none";
  if (type == "ByteLevel") return true;
  if (type == "Fuse") return false;
  if (type == "Sequence" && json.at("decoders").size() == 1) return ParseDecoder(json.at("decoders").at(0));
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.json: the decoder '", type, "' is not supported; supported: ByteLevel, Fuse"));
}

class JsonTokenizer : public Tokenizer {
 public:
  absl::Status Init(const TokenizerFiles& files) {
    const Json& json = files.tokenizer;
    if (!json.is_object() || !json.contains("model")) return absl::InvalidArgumentError("tokenizer.json: no model");
    TROUPE_ASSIGN_OR_RETURN(normalizer_, Normalizer::FromJson(Member(json, "normalizer")));
    TROUPE_ASSIGN_OR_RETURN(pre_tokenizer_, PreTokenizer::FromJson(Member(json, "pre_tokenizer")));
    TROUPE_ASSIGN_OR_RETURN(model_, VocabularyModel::FromJson(json.at("model"), pre_tokenizer_->IsByteLevel()));
    TROUPE_ASSIGN_OR_RETURN(post_processor_, PostProcessor::FromJson(Member(json, "post_processor")));
    TROUPE_ASSIGN_OR_RETURN(bool byte_decoder, ParseDecoder(Member(json, "decoder")));
    TROUPE_ASSIGN_OR_RETURN(std::vector<AddedToken> added, ParseAddedTokens(Member(json, "added_tokens")));
    AddVocabulary(added, byte_decoder);
    json_text_ = files.tokenizer_text.empty() ? json.dump() : files.tokenizer_text;
    return InitConfig(files.config);
  }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const override {
    size_t invalid = FindInvalidUtf8(text);
    if (invalid != std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("the text is not UTF-8: byte ", invalid));
    }
    std::vector<int32_t> ids;
    if (options.add_special_tokens) ids = post_processor_.prefix;
    std::vector<AddedTokenPart> parts;
    added_.Split(text, options.parse_special_tokens, parts);
    for (const AddedTokenPart& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        TROUPE_RETURN_IF_ERROR(EncodeText(part.text, options.parse_special_tokens, ids));
      }
    }
    if (options.add_special_tokens) {
      ids.insert(ids.end(), post_processor_.suffix.begin(), post_processor_.suffix.end());
    }
    return ids;
  }

  std::string Decode(absl::Span<const int32_t> ids, const DecodeOptions& options) const override {
    std::string bytes;
    for (int32_t id : ids) {
      if (IsKnown(id) && !(options.skip_special_tokens && IsSpecial(id)))
        bytes += tokens_[static_cast<size_t>(id)].bytes;
    }
    return TakeLossyUtf8(bytes, false);
  }

  absl::StatusOr<std::string> ApplyChatTemplate(const OrderedJson& messages,
                                                const ChatTemplateOptions& options) const override {
    const std::string& text = options.chat_template.empty() ? chat_template_ : options.chat_template;
    if (text.empty()) {
      return absl::FailedPreconditionError("the model has no chat template; give one, or give the prompt as raw text");
    }
    return RenderChatTemplate(text, messages, options, SpecialTokenTexts());
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::optional<std::string> IdToToken(int32_t id) const override {
    if (!IsKnown(id)) return std::nullopt;
    return tokens_[static_cast<size_t>(id)].spelling;
  }
  std::optional<int32_t> TokenToId(std::string_view token) const override {
    auto found = added_ids_.find(token);
    if (found != added_ids_.end()) return found->second;
    auto in_vocabulary = model_->vocabulary().find(std::string(token));
    if (in_vocabulary == model_->vocabulary().end()) return std::nullopt;
    return in_vocabulary->second;
  }
  bool IsSpecial(int32_t id) const override { return IsKnown(id) && tokens_[static_cast<size_t>(id)].special; }
  const SpecialTokenIds& special() const override { return special_; }
  const std::string& chat_template() const override { return chat_template_; }
  std::string TokenBytes(int32_t id) const override {
    return IsKnown(id) ? tokens_[static_cast<size_t>(id)].bytes : std::string();
  }

  std::string ToTokenizerJson() const override { return json_text_; }
  std::string ToTokenizerConfigJson() const override { return config_.dump(2); }
  std::string ToSpecialTokensMapJson() const override {
    OrderedJson map = OrderedJson::object();
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      if (config_.contains(key) && !config_.at(key).is_null()) map[key] = config_.at(key);
    }
    return map.dump(2);
  }

 private:
  struct Token {
    bool known = false;
    bool special = false;
    std::string spelling;  // as the file has it
    std::string bytes;     // what it decodes to
  };

  bool IsKnown(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && tokens_[static_cast<size_t>(id)].known;
  }

  void AddToken(int32_t id, const std::string& spelling, bool special, bool byte_decoder) {
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
    std::optional<std::string> bytes;
    if (byte_decoder) bytes = SpellingToBytes(spelling);
    tokens_[static_cast<size_t>(id)] = {true, special, spelling, bytes.value_or(spelling)};
  }

  void AddVocabulary(const std::vector<AddedToken>& added, bool byte_decoder) {
    for (const auto& [spelling, id] : model_->vocabulary()) AddToken(id, spelling, false, byte_decoder);
    for (AddedToken token : added) {
      added_ids_[token.content] = token.id;
      if (token.normalized) token.content = normalizer_->Apply(token.content);
      AddToken(token.id, token.content, token.special, byte_decoder);
      (token.normalized ? added_normalized_ : added_).Add(token);
    }
  }

  // Text without tokens of added_.
  absl::Status EncodeText(std::string_view text, bool with_special, std::vector<int32_t>& ids) const {
    std::string normalized;
    if (!normalizer_->IsIdentity()) text = normalized = normalizer_->Apply(text);
    std::vector<AddedTokenPart> parts;
    added_normalized_.Split(text, with_special, parts);
    for (const AddedTokenPart& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      TextPieces pieces;
      pieces.views.push_back(part.text);
      TROUPE_RETURN_IF_ERROR(pre_tokenizer_->Split(pieces));
      for (std::string_view piece : pieces.views) TROUPE_RETURN_IF_ERROR(model_->Encode(piece, ids));
    }
    return absl::OkStatus();
  }

  // "" where the config has no such token. Its value is a string, or an object with `content`.
  std::string ConfigToken(const char* key) const {
    if (!config_.contains(key)) return "";
    const OrderedJson& value = config_.at(key);
    if (value.is_string()) return value.get<std::string>();
    return value.is_object() && value.contains("content") ? value.at("content").get<std::string>() : "";
  }

  OrderedJson SpecialTokenTexts() const {
    OrderedJson out = OrderedJson::object();
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      std::string token = ConfigToken(key);
      if (!token.empty()) out[key] = token;
    }
    return out;
  }

  absl::Status InitConfig(const OrderedJson& config) {
    if (!config.is_object()) return absl::InvalidArgumentError("tokenizer_config.json: not an object");
    config_ = config;
    special_.bos = TokenToId(ConfigToken("bos_token"));
    special_.eos = TokenToId(ConfigToken("eos_token"));
    special_.pad = TokenToId(ConfigToken("pad_token"));
    special_.unk = TokenToId(ConfigToken("unk_token"));
    if (!config_.contains("chat_template")) return absl::OkStatus();
    const OrderedJson& value = config_.at("chat_template");
    if (value.is_string()) chat_template_ = value.get<std::string>();
    if (value.is_array()) {  // several, by name; "default" is the one for conversations
      for (const OrderedJson& item : value) {
        if (item.at("name") == "default") chat_template_ = item.at("template").get<std::string>();
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<VocabularyModel> model_;
  PostProcessor post_processor_;
  AddedTokenMatcher added_, added_normalized_;
  std::map<std::string, int32_t, std::less<>> added_ids_;
  std::vector<Token> tokens_;  // by id
  SpecialTokenIds special_;
  std::string chat_template_;
  std::string json_text_;
  OrderedJson config_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(const TokenizerFiles& files) {
  try {
    auto tokenizer = std::make_unique<JsonTokenizer>();
    absl::Status status = tokenizer->Init(files);
    if (!status.ok()) return status;
    return tokenizer;
  } catch (const nlohmann::json::exception& error) {  // a member is missing or of another type
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.json or tokenizer_config.json is malformed: ", error.what()));
  }
}

}  // namespace troupe
