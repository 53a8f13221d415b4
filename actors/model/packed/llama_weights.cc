// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/llama_weights.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace troupe::packed {
namespace {

// Finds parameters one after another and remembers the first that is wrong.
class Finder {
 public:
  explicit Finder(const ModelWeights& weights) : weights_(weights) {}

  float* Find(const std::string& name, int64_t elements) {
    const std::span<float> found = weights_.Float32(name);
    if (static_cast<int64_t>(found.size()) == elements) return found.data();
    Fail(absl::StrCat("parameter ", name, " has ", found.size(), " float32 values; the model's config implies ",
                      elements));
    return nullptr;
  }

  // The first of parameters that must lie side by side.
  float* FindFused(const std::vector<std::string>& names, const std::vector<int64_t>& elements) {
    float* first = nullptr;
    float* next = nullptr;
    for (size_t i = 0; i < names.size(); ++i) {
      float* found = Find(names[i], elements[i]);
      if (found == nullptr) return nullptr;
      if (i == 0) first = found;
      if (i > 0 && found != next) Fail(absl::StrCat("parameter ", names[i], " does not lie beside ", names[i - 1]));
      next = found + elements[i];
    }
    return first;
  }

  const absl::Status& status() const { return status_; }

 private:
  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }

  const ModelWeights& weights_;
  absl::Status status_;
};

LlamaLayer FindLayer(const ModelConfig& config, int64_t index, Finder& finder) {
  const std::string at = absl::StrCat("model.layers.", index, ".");
  const std::string attention = at + "self_attn.";
  const std::string mlp = at + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  LlamaLayer layer;
  layer.input_norm = finder.Find(at + "input_layernorm.weight", hidden);
  layer.qkv = finder.FindFused({attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"},
                               {q * hidden, kv * hidden, kv * hidden});
  layer.o = finder.Find(attention + "o_proj.weight", hidden * q);
  layer.post_norm = finder.Find(at + "post_attention_layernorm.weight", hidden);
  layer.gate_up =
      finder.FindFused({mlp + "gate_proj.weight", mlp + "up_proj.weight"}, {inner * hidden, inner * hidden});
  layer.down = finder.Find(mlp + "down_proj.weight", hidden * inner);
  if (config.attention_bias) {
    layer.qkv_bias = finder.FindFused({attention + "q_proj.bias", attention + "k_proj.bias", attention + "v_proj.bias"},
                                      {q, kv, kv});
    layer.o_bias = finder.Find(attention + "o_proj.bias", hidden);
  }
  if (config.mlp_bias) {
    layer.gate_up_bias = finder.FindFused({mlp + "gate_proj.bias", mlp + "up_proj.bias"}, {inner, inner});
    layer.down_bias = finder.Find(mlp + "down_proj.bias", hidden);
  }
  return layer;
}

}  // namespace

absl::StatusOr<LlamaWeights> LlamaWeightsOf(const ModelConfig& config, const ModelWeights& weights) {
  if (weights.empty()) return absl::InvalidArgumentError("the model has no weights");
  Finder finder(weights);
  LlamaWeights result;
  result.embedding = finder.Find("model.embed_tokens.weight", config.vocab_size * config.hidden_size);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) result.layers.push_back(FindLayer(config, i, finder));
  result.norm = finder.Find("model.norm.weight", config.hidden_size);
  result.lm_head = config.tie_word_embeddings ? result.embedding
                                              : finder.Find("lm_head.weight", config.vocab_size * config.hidden_size);
  if (!finder.status().ok()) return finder.status();
  return result;
}

}  // namespace troupe::packed
