// SPDX-License-Identifier: Apache-2.0
// Tiny random models for tests and for training from scratch.
#include "actors/model/files/random_model.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/model/files/hugging_face_folder.h"
#include "actors/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr int64_t kSpecialTokens = 2;  // <pad>, <eos>

// SplitMix64 and the Box-Muller transform: the same values with every standard library.
class NormalNumbers {
 public:
  explicit NormalNumbers(uint64_t seed) : state_(seed) {}

  double Next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));  // Uniform is below 1
    double angle = 2.0 * M_PI * Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  double Uniform() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

OrderedJson AddedToken(int64_t id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// One token a character: WordLevel, split between all characters.
absl::StatusOr<std::unique_ptr<Tokenizer>> CharacterTokenizer(int64_t vocab_size) {
  int64_t vocab_size_max = kSpecialTokens + static_cast<int64_t>(kCharacters.size());
  if (vocab_size <= kSpecialTokens || vocab_size > vocab_size_max) {
    return absl::InvalidArgumentError(absl::StrCat("a random model without a tokenizer of its own has a vocabulary of ",
                                                   kSpecialTokens + 1, " to ", vocab_size_max, " characters, not ",
                                                   vocab_size));
  }
  OrderedJson vocabulary = {{"<pad>", 0}, {"<eos>", 1}};
  for (int64_t id = kSpecialTokens; id < vocab_size; ++id) {
    vocabulary[std::string(1, kCharacters[static_cast<size_t>(id - kSpecialTokens)])] = id;
  }
  OrderedJson json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = OrderedJson::array({AddedToken(0, "<pad>"), AddedToken(1, "<eos>")});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}, {"invert", false}};
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "Fuse"}};
  json["model"] = {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<pad>"}};
  OrderedJson config = {{"pad_token", "<pad>"},   {"eos_token", "<eos>"},
                        {"unk_token", "<pad>"},   {"clean_up_tokenization_spaces", false},
                        {"padding_side", "left"}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
  return Tokenizer::FromJson(json.dump(), config.dump());
}

}  // namespace

ModelConfig EvenDigitsConfig() {
  ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 16;
  config.max_position_embeddings = 64;
  config.rms_norm_eps = 1e-6;
  config.rope_theta = 10000.0;
  config.tie_word_embeddings = true;
  config.initializer_range = 0.02;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  return config;
}

absl::Status MakeRandomModel(const ModelConfig& config, uint64_t seed, const std::string& dir,
                             const Tokenizer* tokenizer) {
  std::unique_ptr<Tokenizer> of_characters;
  if (tokenizer == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(of_characters, CharacterTokenizer(config.vocab_size));
    tokenizer = of_characters.get();
  }
  if (tokenizer->vocab_size() > config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", tokenizer->vocab_size(),
                                                   " tokens, config.json a vocab_size of ", config.vocab_size));
  }
  NormalNumbers normal(seed);
  std::vector<float> values;
  auto read = [&](const ParameterShape& parameter) -> absl::StatusOr<absl::Span<const float>> {
    size_t count = 1;
    for (int64_t size : parameter.shape) count *= static_cast<size_t>(size);
    values.assign(count, EndsWith(parameter.name, "norm.weight") ? 1.0f : 0.0f);
    if (parameter.shape.size() > 1) {
      for (float& value : values) value = static_cast<float>(normal.Next() * config.initializer_range);
    }
    return absl::MakeConstSpan(values);
  };
  return WriteHuggingFaceFolder(dir, config, tokenizer, read);
}

}  // namespace troupe
