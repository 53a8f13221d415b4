// SPDX-License-Identifier: Apache-2.0
// The architecture of a language model, by Hugging Face's field names, and its JSON form (config.json).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace troupe {

enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn };

// How rotary frequencies are stretched beyond the context a model was trained on. Fields that a type does not use keep
// their defaults. Sources: transformers `modeling_rope_utils.py`; Peng et al. 2023 (YaRN).
struct RopeScaling {
  RopeType type = RopeType::kDefault;
  double factor = 1.0;                           // linear, dynamic, llama3, yarn
  int64_t original_max_position_embeddings = 0;  // dynamic, llama3, yarn; 0: max_position_embeddings
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;                        // yarn
  bool truncate = true;                          // yarn: round the correction range outwards to whole dimensions
  std::optional<double> attention_factor;        // yarn; absent: from factor, or from mscale and mscale_all_dim
  std::optional<double> mscale;                  // yarn
  std::optional<double> mscale_all_dim;          // yarn

  bool operator==(const RopeScaling&) const = default;
};

// A plain value: copy it freely. Only what ValidateModelConfig accepts leaves ParseModelConfig and ModelSource.
struct ModelConfig {
  std::string model_type = "llama";
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // need not be hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;  // lm_head.weight is model.embed_tokens.weight
  bool attention_bias = false;       // q, k, v and o projections have a bias
  bool mlp_bias = false;             // gate, up and down projections have a bias
  double initializer_range = 0.02;
  std::string hidden_act = "silu";
  std::string dtype = "float32";  // float32, bfloat16 or float16: what the checkpoint is stored in
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> pad_token_id;
  std::vector<int64_t> eos_token_ids;  // each of them ends a response; the first is the tokenizer's eos token

  bool operator==(const ModelConfig&) const = default;
};

// Reads the text or value of a config.json, spelled as Transformers 4 (rope_theta, rope_scaling, torch_dtype) or 5
// (rope_parameters, dtype) writes it. INVALID_ARGUMENT names the field, its value and what was expected;
// UNIMPLEMENTED an architecture or rope type that is not supported, with those that are.
absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& text);
absl::StatusOr<ModelConfig> ParseModelConfig(const nlohmann::json& value);

// Adds the end ids of a generation_config.json that `config` does not have yet.
absl::Status MergeGenerationConfig(const nlohmann::json& value, ModelConfig& config);

// Sizes positive and bounded, heads a multiple of key/value heads, head_dim even, end ids inside the vocabulary...
absl::Status ValidateModelConfig(const ModelConfig& config);

// config.json with the keys of Transformers 4, which 4 and 5 both load.
nlohmann::ordered_json ModelConfigToJson(const ModelConfig& config);

// generation_config.json: bos, pad and every end id.
nlohmann::ordered_json GenerationConfigToJson(const ModelConfig& config);

// A parameter of a model: Hugging Face's name and row-major shape, for example
// {"model.layers.0.self_attn.q_proj.weight", {num_attention_heads * head_dim, hidden_size}}.
struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Every parameter of the model in the order of its forward pass (embedding, layers, norm, lm_head unless tied).
std::vector<ParameterShape> ParameterShapes(const ModelConfig& config);

}  // namespace troupe
