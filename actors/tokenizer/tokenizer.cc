// SPDX-License-Identifier: Apache-2.0
// Loading a tokenizer from a model on disk, and decoding a stream of tokens.
#include "actors/tokenizer/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/checked_json.h"
#include "actors/model/files/gguf.h"
#include "actors/tokenizer/gguf_tokenizer.h"
#include "actors/tokenizer/json_tokenizer.h"
#include "actors/tokenizer/utf8.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr int64_t kTokenizerBytesMax = 256 << 20;  // the largest published one has 35 MB
constexpr int64_t kConfigBytesMax = 16 << 20;      // with thousands of added tokens

using OrderedJson = nlohmann::ordered_json;

absl::StatusOr<OrderedJson> ReadObject(const std::string& path) {
  if (!FileExists(path)) return OrderedJson::object();
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kConfigBytesMax));
  TROUPE_ASSIGN_OR_RETURN(OrderedJson json, ParseOrderedJson(text, path));
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " holds no object"));
  return json;
}

// tokenizer_config.json, with what other files of the folder say about the same things.
absl::StatusOr<OrderedJson> ReadConfig(const std::string& dir) {
  TROUPE_ASSIGN_OR_RETURN(OrderedJson config, ReadObject(dir + "/tokenizer_config.json"));
  TROUPE_ASSIGN_OR_RETURN(OrderedJson special, ReadObject(dir + "/special_tokens_map.json"));
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    if (!config.contains(key) && special.contains(key)) config[key] = special.at(key);
  }
  std::string template_path = dir + "/chat_template.jinja";
  if (FileExists(template_path)) {
    TROUPE_ASSIGN_OR_RETURN(config["chat_template"], ReadFile(template_path, kConfigBytesMax));
  }
  return config;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadFolder(const std::string& dir) {
  std::string path = dir + "/tokenizer.json";
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kTokenizerBytesMax));
  TROUPE_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, path));
  TROUPE_ASSIGN_OR_RETURN(OrderedJson config, ReadConfig(dir));
  return MakeJsonTokenizer({json, std::move(text), config});
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGguf(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return TokenizerFromGguf(*file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  const absl::StatusOr<FileInfo> info = StatFile(path);
  bool is_folder = info.ok() && info->is_folder;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = is_folder ? LoadFolder(path) : LoadGguf(path);
  if (tokenizer.ok() || MessageOf(tokenizer.status()).find(path) != std::string::npos) return tokenizer;
  return Annotate(tokenizer.status(), path);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(const std::string& tokenizer_json,
                                                               const std::string& tokenizer_config_json) {
  TROUPE_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(tokenizer_json, "tokenizer.json"));
  OrderedJson config = OrderedJson::object();
  if (!tokenizer_config_json.empty()) {
    TROUPE_ASSIGN_OR_RETURN(config, ParseOrderedJson(tokenizer_config_json, "tokenizer_config.json"));
  }
  return MakeJsonTokenizer({json, tokenizer_json, config});
}

std::string StreamingDecoder::Push(int32_t id) {
  if (options_.skip_special_tokens && tokenizer_.IsSpecial(id)) return "";
  pending_ += tokenizer_.TokenBytes(id);
  return TakeLossyUtf8(pending_, true);
}

std::string StreamingDecoder::Finish() { return TakeLossyUtf8(pending_, false); }

}  // namespace troupe
