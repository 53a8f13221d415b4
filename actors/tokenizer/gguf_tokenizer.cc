// SPDX-License-Identifier: Apache-2.0
// Turns the tokenizer inside a GGUF file into tokenizer.json and tokenizer_config.json.
#include "actors/tokenizer/gguf_tokenizer.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/tokenizer/json_tokenizer.h"
#include "actors/tokenizer/utf8.h"
#include "actors/tokenizer/vocabulary_model.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// llama.cpp's token types.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

Json ByteLevelJson(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json SplitThenBytes(const char* pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
            ByteLevelJson(false)}}};
}

struct PreTokenizerJson {
  Json pre_tokenizer;
  Json normalizer = nullptr;
  bool ignore_merges = false;
};

// The pre-tokenizers that GGUF files name, as Hugging Face's files of the same models spell them.
absl::StatusOr<PreTokenizerJson> NamedPreTokenizer(const std::string& name) {
  if (name == "gpt-2") return PreTokenizerJson{ByteLevelJson(true)};
  if (name == "smollm") {
    return PreTokenizerJson{
        {{"type", "Sequence"},
         {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, ByteLevelJson(true)}}}};
  }
  if (name == "llama-bpe" || name == "llama3") {
    return PreTokenizerJson{
        SplitThenBytes(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                       R"(\s*[\r\n]+|\s+(?!\S)|\s+)"),
        nullptr, true};
  }
  if (name == "qwen2") {
    return PreTokenizerJson{
        SplitThenBytes(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                       R"(\s*[\r\n]+|\s+(?!\S)|\s+)"),
        {{"type", "NFC"}}};
  }
  return absl::UnimplementedError(absl::StrCat("tokenizer.ggml.pre: the pre-tokenizer '", name,
                                               "' is not supported; supported: gpt-2, smollm, llama-bpe, qwen2"));
}

absl::Status CheckUtf8(const std::vector<std::string>& strings, const char* key) {
  for (size_t i = 0; i < strings.size(); ++i) {
    if (FindInvalidUtf8(strings[i]) != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": element ", i, " is not UTF-8"));
    }
  }
  return absl::OkStatus();
}

// Control and user-defined tokens stand beside the vocabulary, as in Hugging Face's files.
absl::StatusOr<Json> AddedTokens(const GgufFile& file, const std::vector<std::string>& tokens) {
  Json added = Json::array();
  if (!file.Has("tokenizer.ggml.token_type")) return added;
  TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> types, file.Ints("tokenizer.ggml.token_type"));
  if (types.size() != tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type has ", types.size(),
                                                   " elements but there are ", tokens.size(), " tokens"));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != kControl && types[i] != kUserDefined && types[i] != kUnknown) continue;
    added.push_back({{"id", i},
                     {"content", tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[i] != kUserDefined}});
  }
  return added;
}

absl::StatusOr<Json> ModelJson(const GgufFile& file, const std::vector<std::string>& tokens, bool ignore_merges) {
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> merges, file.Strings("tokenizer.ggml.merges"));
  TROUPE_RETURN_IF_ERROR(CheckUtf8(merges, "tokenizer.ggml.merges"));
  Json vocabulary = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!vocabulary.emplace(tokens[i], i).second) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens: element ", i, " stands twice"));
    }
  }
  Json pairs = Json::array();
  for (const std::string& merge : merges) {
    size_t space = merge.find(' ', 1);  // a token may begin with a space in no byte-level vocabulary
    if (space == merge.npos) {
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.merges: element ", pairs.size(), " is no pair"));
    }
    pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return Json{{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", ignore_merges},
              {"vocab", std::move(vocabulary)},
              {"merges", std::move(pairs)}};
}

// What the tokenizer adds before and after a text. llama.cpp adds a beginning token to Llama 3's unless told otherwise.
absl::StatusOr<Json> PostProcessorJson(const GgufFile& file, const std::vector<std::string>& tokens,
                                       bool add_bos_default) {
  Json single = Json::array(), special = Json::object();
  auto add = [&](const char* flag, bool add_default, const char* id_key) -> absl::Status {
    bool wanted = add_default;
    if (file.Has(flag)) {
      TROUPE_ASSIGN_OR_RETURN(wanted, file.Bool(flag));
    }
    if (!wanted || !file.Has(id_key)) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(int64_t id, file.Int(id_key));
    if (id < 0 || static_cast<size_t>(id) >= tokens.size()) return absl::OkStatus();
    const std::string& token = tokens[static_cast<size_t>(id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    return absl::OkStatus();
  };
  TROUPE_RETURN_IF_ERROR(add("tokenizer.ggml.add_bos_token", add_bos_default, "tokenizer.ggml.bos_token_id"));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  TROUPE_RETURN_IF_ERROR(add("tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id"));
  if (special.empty()) return ByteLevelJson(true);
  Json pair = single;
  for (Json item : single) {
    for (auto& [kind, value] : item.items()) {
      value["type_id"] = 1;
      if (kind == "Sequence") value["id"] = "B";
    }
    pair.push_back(std::move(item));
  }
  return Json{{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

absl::StatusOr<OrderedJson> ConfigJson(const GgufFile& file, const std::vector<std::string>& tokens) {
  OrderedJson config = OrderedJson::object();
  config["add_prefix_space"] = false;
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                             {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                             {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                             {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kTokens) {
    if (!file.Has(key)) continue;
    TROUPE_ASSIGN_OR_RETURN(int64_t id, file.Int(key));
    if (id >= 0 && static_cast<size_t>(id) < tokens.size()) config[name] = tokens[static_cast<size_t>(id)];
  }
  if (file.Has("tokenizer.chat_template")) {
    TROUPE_ASSIGN_OR_RETURN(std::string chat_template, file.String("tokenizer.chat_template"));
    if (FindInvalidUtf8(chat_template) != std::string::npos) {
      return absl::InvalidArgumentError("tokenizer.chat_template is not UTF-8");
    }
    config["chat_template"] = chat_template;
  }
  config["clean_up_tokenization_spaces"] = false;
  std::string context_key = absl::StrCat(file.String("general.architecture").value_or(""), ".context_length");
  if (file.Has(context_key)) {
    TROUPE_ASSIGN_OR_RETURN(int64_t context_length, file.Int(context_key));
    config["model_max_length"] = context_length;
  }
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const GgufFile& file) {
  TROUPE_ASSIGN_OR_RETURN(std::string model, file.String("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.ggml.model: '", model, "' is not supported; supported: gpt2 (BPE over bytes)"));
  }
  std::string pre = "gpt-2";
  if (file.Has("tokenizer.ggml.pre")) {
    TROUPE_ASSIGN_OR_RETURN(pre, file.String("tokenizer.ggml.pre"));
  }
  TROUPE_ASSIGN_OR_RETURN(PreTokenizerJson named, NamedPreTokenizer(pre));
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> tokens, file.Strings("tokenizer.ggml.tokens"));
  TROUPE_RETURN_IF_ERROR(CheckUtf8(tokens, "tokenizer.ggml.tokens"));
  if (tokens.empty() || static_cast<int64_t>(tokens.size()) > kTokenIdMax) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens has ", tokens.size(), " elements"));
  }
  Json json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  TROUPE_ASSIGN_OR_RETURN(json["added_tokens"], AddedTokens(file, tokens));
  json["normalizer"] = named.normalizer;
  json["pre_tokenizer"] = named.pre_tokenizer;
  TROUPE_ASSIGN_OR_RETURN(json["post_processor"], PostProcessorJson(file, tokens, named.ignore_merges));
  json["decoder"] = ByteLevelJson(true);
  TROUPE_ASSIGN_OR_RETURN(json["model"], ModelJson(file, tokens, named.ignore_merges));
  TROUPE_ASSIGN_OR_RETURN(OrderedJson config, ConfigJson(file, tokens));
  return MakeJsonTokenizer({json, "", config});
}

}  // namespace troupe
