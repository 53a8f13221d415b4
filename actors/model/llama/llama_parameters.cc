// SPDX-License-Identifier: Apache-2.0
#include "actors/model/llama/llama_parameters.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

absl::Status CheckLayout(const WeightLayout& expected, const WeightLayout& actual) {
  if (expected.entries.size() != actual.entries.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the weights have ", actual.entries.size(),
                                                   " parameters; the model's config asks for ",
                                                   expected.entries.size()));
  }
  for (size_t i = 0; i < expected.entries.size(); ++i) {
    const WeightEntry& want = expected.entries[i];
    const WeightEntry& have = actual.entries[i];
    if (want.name != have.name || want.shape != have.shape || want.offset_bytes != have.offset_bytes ||
        want.type != have.type) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights' parameter ", have.name, " (", ElementTypeName(have.type),
          ") does not lie where the model's config puts ", want.name, " (", ElementTypeName(want.type), ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LlamaParameters> LlamaParametersOf(const ModelConfig& config, const ModelWeights& weights) {
  if (weights.empty()) return absl::InvalidArgumentError("the model has no weights");
  TROUPE_ASSIGN_OR_RETURN(const WeightLayout layout, LayoutOf(config, ElementType::kF32));
  TROUPE_RETURN_IF_ERROR(CheckLayout(layout, weights.layout()));

  // Null for a parameter that the model does not have. What is fused begins at its first part: LayoutOf makes them
  // neighbours.
  const auto at = [&](const std::string& name) -> float* {
    const WeightEntry* entry = layout.Find(name);
    return entry == nullptr ? nullptr : reinterpret_cast<float*>(weights.bytes().data() + entry->offset_bytes);
  };
  LlamaParameters parameters{.embedding = at("model.embed_tokens.weight")};
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    parameters.layers.push_back({
        .input_norm = at(layer + "input_layernorm.weight"),
        .qkv = at(layer + "self_attn.q_proj.weight"),
        .qkv_bias = at(layer + "self_attn.q_proj.bias"),
        .o = at(layer + "self_attn.o_proj.weight"),
        .o_bias = at(layer + "self_attn.o_proj.bias"),
        .post_norm = at(layer + "post_attention_layernorm.weight"),
        .gate_up = at(layer + "mlp.gate_proj.weight"),
        .gate_up_bias = at(layer + "mlp.gate_proj.bias"),
        .down = at(layer + "mlp.down_proj.weight"),
        .down_bias = at(layer + "mlp.down_proj.bias"),
    });
  }
  parameters.norm = at("model.norm.weight");
  parameters.lm_head = config.tie_word_embeddings ? parameters.embedding : at("lm_head.weight");
  return parameters;
}

}  // namespace troupe
