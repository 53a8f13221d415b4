// SPDX-License-Identifier: Apache-2.0
// What a model's architecture must fulfil, and the parameters that follow from it.
#include "actors/model/files/model_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace troupe {
namespace {

// Bounds far above any published model; they keep every product of two sizes inside 64 bits.
constexpr int64_t kVocabSizeMax = int64_t{1} << 24;
constexpr int64_t kWidthMax = int64_t{1} << 22;
constexpr int64_t kLayersMax = 4096;
constexpr int64_t kHeadsMax = 65536;
constexpr int64_t kPositionsMax = int64_t{1} << 32;

absl::Status CheckRange(const char* field, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model config: ", field, " is ", value, "; it must lie between 1 and ", max));
}

absl::Status CheckSizes(const ModelConfig& c) {
  struct {
    const char* field;
    int64_t value, max;
  } const sizes[] = {{"vocab_size", c.vocab_size, kVocabSizeMax},
                     {"hidden_size", c.hidden_size, kWidthMax},
                     {"intermediate_size", c.intermediate_size, kWidthMax},
                     {"num_hidden_layers", c.num_hidden_layers, kLayersMax},
                     {"num_attention_heads", c.num_attention_heads, kHeadsMax},
                     {"num_key_value_heads", c.num_key_value_heads, kHeadsMax},
                     {"head_dim", c.head_dim, 4096},
                     {"max_position_embeddings", c.max_position_embeddings, kPositionsMax}};
  for (const auto& size : sizes) {
    absl::Status status = CheckRange(size.field, size.value, size.max);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(const char* field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model config: ", field, " is ", value, "; it must be above 0"));
}

absl::Status CheckRope(const ModelConfig& c) {
  const RopeScaling& rope = c.rope_scaling;
  absl::Status status = CheckPositive("rope_theta", c.rope_theta);
  if (status.ok()) status = CheckPositive("the rope scaling's factor", rope.factor);
  if (!status.ok()) return status;
  if (rope.type == RopeType::kLlama3 && !(rope.high_freq_factor > rope.low_freq_factor && rope.low_freq_factor > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("model config: the rope scaling's high_freq_factor (",
                                                   rope.high_freq_factor, ") must be above its low_freq_factor (",
                                                   rope.low_freq_factor, ")"));
  }
  if (rope.original_max_position_embeddings < 0 || rope.original_max_position_embeddings > kPositionsMax) {
    return absl::InvalidArgumentError(
        "model config: the rope scaling's original_max_position_embeddings is out of range");
  }
  return absl::OkStatus();
}

absl::Status CheckTokenIds(const ModelConfig& c) {
  auto check = [&](const char* field, int64_t id) {
    if (id >= 0 && id < c.vocab_size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("model config: ", field, " is ", id, ", outside the vocabulary of ", c.vocab_size));
  };
  absl::Status status;
  if (c.bos_token_id) status = check("bos_token_id", *c.bos_token_id);
  if (status.ok() && c.pad_token_id) status = check("pad_token_id", *c.pad_token_id);
  for (size_t i = 0; status.ok() && i < c.eos_token_ids.size(); ++i) status = check("eos_token_id", c.eos_token_ids[i]);
  return status;
}

void AddProjection(std::vector<ParameterShape>& out, const std::string& name, int64_t outputs, int64_t inputs,
                   bool bias) {
  out.push_back({absl::StrCat(name, ".weight"), {outputs, inputs}});
  if (bias) out.push_back({absl::StrCat(name, ".bias"), {outputs}});
}

}  // namespace

absl::Status ValidateModelConfig(const ModelConfig& c) {
  if (c.model_type != "llama") {
    return absl::UnimplementedError(
        absl::StrCat("model config: the architecture '", c.model_type, "' is not supported; supported: llama"));
  }
  if (c.hidden_act != "silu" && c.hidden_act != "swish") {
    return absl::UnimplementedError(
        absl::StrCat("model config: hidden_act '", c.hidden_act, "' is not supported; supported: silu"));
  }
  absl::Status status = CheckSizes(c);
  if (!status.ok()) return status;
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model config: num_attention_heads (", c.num_attention_heads,
                                                   ") is not a multiple of num_key_value_heads (",
                                                   c.num_key_value_heads, ")"));
  }
  if (c.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model config: head_dim is ", c.head_dim, "; rotary embeddings need an even one"));
  }
  status = CheckPositive("rms_norm_eps", c.rms_norm_eps);
  if (status.ok()) status = CheckRope(c);
  if (status.ok()) status = CheckTokenIds(c);
  return status;
}

std::vector<ParameterShape> ParameterShapes(const ModelConfig& c) {
  std::vector<ParameterShape> out;
  out.push_back({"model.embed_tokens.weight", {c.vocab_size, c.hidden_size}});
  int64_t q_size = c.num_attention_heads * c.head_dim;
  int64_t kv_size = c.num_key_value_heads * c.head_dim;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    std::string layer = absl::StrCat("model.layers.", i);
    out.push_back({layer + ".input_layernorm.weight", {c.hidden_size}});
    AddProjection(out, layer + ".self_attn.q_proj", q_size, c.hidden_size, c.attention_bias);
    AddProjection(out, layer + ".self_attn.k_proj", kv_size, c.hidden_size, c.attention_bias);
    AddProjection(out, layer + ".self_attn.v_proj", kv_size, c.hidden_size, c.attention_bias);
    AddProjection(out, layer + ".self_attn.o_proj", c.hidden_size, q_size, c.attention_bias);
    out.push_back({layer + ".post_attention_layernorm.weight", {c.hidden_size}});
    AddProjection(out, layer + ".mlp.gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    AddProjection(out, layer + ".mlp.up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    AddProjection(out, layer + ".mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
  }
  out.push_back({"model.norm.weight", {c.hidden_size}});
  if (!c.tie_word_embeddings) out.push_back({"lm_head.weight", {c.vocab_size, c.hidden_size}});
  return out;
}

}  // namespace troupe
