// SPDX-License-Identifier: Apache-2.0
// A model's architecture from the metadata of its GGUF file.
#include "actors/model/files/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// Leave `out` alone where the key is missing.
absl::Status OptionalInt(const GgufFile& file, const std::string& key, int64_t& out) {
  if (!file.Has(key)) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(out, file.Int(key));
  return absl::OkStatus();
}

absl::Status OptionalNumber(const GgufFile& file, const std::string& key, double& out) {
  if (!file.Has(key)) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(out, file.Number(key));
  return absl::OkStatus();
}

// How much Llama 3 stretches the wavelength of each rotary frequency (1: not at all). Source: transformers,
// _compute_llama3_parameters.
double Llama3Stretch(const ModelConfig& c, int64_t i) {
  double wavelength = 2 * M_PI * std::pow(c.rope_theta, 2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
  const RopeScaling& rope = c.rope_scaling;
  double original = static_cast<double>(rope.original_max_position_embeddings);
  if (wavelength < original / rope.high_freq_factor) return 1.0;
  if (wavelength > original / rope.low_freq_factor) return rope.factor;
  double smooth = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1.0 / ((1.0 - smooth) / rope.factor + smooth);
}

// GGUF stores the stretch of each frequency as a tensor, not the parameters that made it. Every Llama 3 model has
// low_freq_factor 1, high_freq_factor 4 and an original context of 8192; the factor (8 or 32) is the largest stretch.
absl::Status ReadRopeFrequencies(const GgufTensor& tensor, ModelConfig& config) {
  std::vector<float> stretch(static_cast<size_t>(config.head_dim / 2));
  if (tensor.shape != std::vector<int64_t>{config.head_dim / 2}) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' does not have head_dim / 2 elements"));
  }
  TROUPE_RETURN_IF_ERROR(Dequantise(*tensor.type, tensor.bytes, absl::MakeSpan(stretch)));
  RopeScaling& rope = config.rope_scaling;
  rope.type = RopeType::kLlama3;
  rope.factor = *std::max_element(stretch.begin(), stretch.end());
  rope.low_freq_factor = 1.0;
  rope.high_freq_factor = 4.0;
  rope.original_max_position_embeddings = 8192;
  for (size_t i = 0; i < stretch.size(); ++i) {
    if (!(std::abs(Llama3Stretch(config, static_cast<int64_t>(i)) - stretch[i]) <= 1e-4 * stretch[i])) {
      return absl::UnimplementedError(
          absl::StrCat("the rotary frequencies of tensor '", tensor.name, "' are not those of a Llama 3 model"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  TROUPE_RETURN_IF_ERROR(OptionalNumber(file, prefix + "rope.freq_base", config.rope_theta));
  int64_t rotary_size = config.head_dim;
  TROUPE_RETURN_IF_ERROR(OptionalInt(file, prefix + "rope.dimension_count", rotary_size));
  if (rotary_size != config.head_dim) {
    return absl::UnimplementedError(absl::StrCat("rotary embeddings over ", rotary_size, " of ", config.head_dim,
                                                 " dimensions of a head are not supported"));
  }
  if (const GgufTensor* frequencies = file.Find("rope_freqs.weight")) {
    return ReadRopeFrequencies(*frequencies, config);
  }
  std::string type = "none";
  if (file.Has(prefix + "rope.scaling.type")) {
    TROUPE_ASSIGN_OR_RETURN(type, file.String(prefix + "rope.scaling.type"));
  }
  if (type == "none") return absl::OkStatus();
  if (type != "linear" && type != "yarn") {
    return absl::UnimplementedError(
        absl::StrCat("rope scaling '", type, "' is not supported in a GGUF file; supported: none, linear, yarn"));
  }
  RopeScaling& rope = config.rope_scaling;
  rope.type = type == "yarn" ? RopeType::kYarn : RopeType::kLinear;
  TROUPE_RETURN_IF_ERROR(OptionalNumber(file, prefix + "rope.scaling.factor", rope.factor));
  return OptionalInt(file, prefix + "rope.scaling.original_context_length", rope.original_max_position_embeddings);
}

absl::Status ReadTokenIds(const GgufFile& file, ModelConfig& config) {
  auto read = [&](const char* key, std::optional<int64_t>& out) -> absl::Status {
    if (!file.Has(key)) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(int64_t id, file.Int(key));
    if (id >= 0 && id < config.vocab_size) out = id;  // llama.cpp writes 2^32 - 1 for none
    return absl::OkStatus();
  };
  TROUPE_RETURN_IF_ERROR(read("tokenizer.ggml.bos_token_id", config.bos_token_id));
  TROUPE_RETURN_IF_ERROR(read("tokenizer.ggml.padding_token_id", config.pad_token_id));
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    std::optional<int64_t> id;
    TROUPE_RETURN_IF_ERROR(read(key, id));
    auto& ids = config.eos_token_ids;
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const GgufFile& file, const std::string& prefix, ModelConfig& config) {
  TROUPE_ASSIGN_OR_RETURN(config.hidden_size, file.Int(prefix + "embedding_length"));
  TROUPE_ASSIGN_OR_RETURN(config.intermediate_size, file.Int(prefix + "feed_forward_length"));
  TROUPE_ASSIGN_OR_RETURN(config.num_hidden_layers, file.Int(prefix + "block_count"));
  TROUPE_ASSIGN_OR_RETURN(config.num_attention_heads, file.Int(prefix + "attention.head_count"));
  config.num_key_value_heads = config.num_attention_heads;
  TROUPE_RETURN_IF_ERROR(OptionalInt(file, prefix + "attention.head_count_kv", config.num_key_value_heads));
  if (config.num_attention_heads > 0) config.head_dim = config.hidden_size / config.num_attention_heads;
  TROUPE_RETURN_IF_ERROR(OptionalInt(file, prefix + "attention.key_length", config.head_dim));
  TROUPE_RETURN_IF_ERROR(OptionalInt(file, prefix + "context_length", config.max_position_embeddings));
  TROUPE_RETURN_IF_ERROR(OptionalNumber(file, prefix + "attention.layer_norm_rms_epsilon", config.rms_norm_eps));
  const GgufTensor* embedding = file.Find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return absl::InvalidArgumentError("tensor 'token_embd.weight' is missing or no matrix");
  }
  config.vocab_size = embedding->shape[0];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ConfigFromGguf(const GgufFile& file) {
  ModelConfig config;
  TROUPE_ASSIGN_OR_RETURN(config.model_type, file.String("general.architecture"));
  if (config.model_type != "llama") return ValidateModelConfig(config);  // says what is supported
  std::string prefix = config.model_type + ".";
  TROUPE_RETURN_IF_ERROR(ReadSizes(file, prefix, config));
  config.tie_word_embeddings = file.Find("output.weight") == nullptr;
  config.attention_bias = file.Find("blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = file.Find("blk.0.ffn_gate.bias") != nullptr;
  TROUPE_RETURN_IF_ERROR(ValidateModelConfig(config));  // before sizes are used below
  TROUPE_RETURN_IF_ERROR(ReadRope(file, prefix, config));
  TROUPE_RETURN_IF_ERROR(ReadTokenIds(file, config));
  TROUPE_RETURN_IF_ERROR(ValidateModelConfig(config));
  return config;
}

}  // namespace troupe
