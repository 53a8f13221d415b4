// SPDX-License-Identifier: Apache-2.0
#include "actors/model/packed/naive_llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "actors/model/rope_frequencies.h"

namespace troupe {

NaiveLlama::NaiveLlama(const ModelConfig& config, const ModelWeights& weights) : config_(config) {
  for (const WeightEntry& entry : weights.layout().entries) {
    parameters_[entry.name] =
        at::from_blob(weights.Float32(entry.name).data(), entry.shape, at::kFloat).to(at::kDouble).requires_grad_(true);
  }
}

at::Tensor NaiveLlama::Gradient(const std::string& name) const {
  const at::Tensor& gradient = P(name).grad();
  return gradient.defined() ? gradient : at::zeros_like(P(name));
}

at::Tensor NaiveLlama::Apply(const std::string& name, const at::Tensor& x) const {
  const at::Tensor y = x.matmul(P(name + ".weight").t());
  return parameters_.count(name + ".bias") > 0 ? y + P(name + ".bias") : y;
}

at::Tensor NaiveLlama::Norm(const std::string& name, const at::Tensor& x) const {
  return x * (x.square().mean(-1, /*keepdim=*/true) + config_.rms_norm_eps).rsqrt() * P(name + ".weight");
}

// [tokens, heads * head_dim] -> [heads, tokens, head_dim]
at::Tensor NaiveLlama::Heads(const at::Tensor& x, int64_t heads, bool rotate) const {
  const at::Tensor y = x.view({x.size(0), heads, config_.head_dim}).transpose(0, 1);
  if (!rotate) return y;
  RopeFrequencies rope = ComputeRopeFrequencies(config_);
  const at::Tensor frequencies =
      at::from_blob(rope.inv_freq.data(), {1, config_.head_dim / 2}, at::kFloat).to(at::kDouble);
  const at::Tensor angles = at::arange(x.size(0), at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor c = angles.cos() * rope.attention_scaling;
  const at::Tensor s = angles.sin() * rope.attention_scaling;
  const at::Tensor a = y.slice(-1, 0, config_.head_dim / 2);
  const at::Tensor b = y.slice(-1, config_.head_dim / 2);
  return at::cat({a * c - b * s, b * c + a * s}, -1);
}

at::Tensor NaiveLlama::Logits(const std::vector<int32_t>& tokens) const {
  const int64_t count = static_cast<int64_t>(tokens.size());
  const int64_t per_kv = config_.num_attention_heads / config_.num_key_value_heads;
  at::Tensor x = P("model.embed_tokens.weight").index_select(0, at::tensor(tokens, at::kInt));
  const at::Tensor future = at::ones({count, count}, at::kBool).triu(1);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string at = absl::StrCat("model.layers.", i, ".");
    const at::Tensor n = Norm(at + "input_layernorm", x);
    const at::Tensor q = Heads(Apply(at + "self_attn.q_proj", n), config_.num_attention_heads, true);
    const at::Tensor k = Heads(Apply(at + "self_attn.k_proj", n), config_.num_key_value_heads, true);
    const at::Tensor v = Heads(Apply(at + "self_attn.v_proj", n), config_.num_key_value_heads, false);
    const at::Tensor scores =
        q.matmul(k.repeat_interleave(per_kv, 0).transpose(1, 2)) / std::sqrt(static_cast<double>(config_.head_dim));
    const at::Tensor p = scores.masked_fill(future, -INFINITY).softmax(-1);
    const at::Tensor mixed = p.matmul(v.repeat_interleave(per_kv, 0)).transpose(0, 1).reshape({count, -1});
    x = x + Apply(at + "self_attn.o_proj", mixed);
    const at::Tensor m = Norm(at + "post_attention_layernorm", x);
    const at::Tensor gate = Apply(at + "mlp.gate_proj", m);
    x = x + Apply(at + "mlp.down_proj", gate * gate.sigmoid() * Apply(at + "mlp.up_proj", m));
  }
  const std::string head = config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  return Norm("model.norm", x).matmul(P(head).t());
}

ModelWeights TestWeights(const ModelConfig& config, uint64_t seed) {
  ModelWeights weights = ModelWeights::Allocate(LayoutOf(config, ElementType::kF32).value());
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(config.initializer_range));
  for (const WeightEntry& entry : weights.layout().entries) {
    const float centre = entry.name.find("norm") != std::string::npos ? 1.0f : 0.0f;
    for (float& value : weights.Float32(entry.name)) value = centre + normal(random);
  }
  return weights;
}

}  // namespace troupe
