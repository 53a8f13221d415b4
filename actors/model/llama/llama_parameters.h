// SPDX-License-Identifier: Apache-2.0
// Where the parameters of a Llama model (or their gradients) lie in its ModelWeights, neighbours as one matrix.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe {

// float32, row-major; a bias is null where the model has none. Weights that another process published are mapped to be
// read only.
struct LlamaLayerParameters {
  float* input_norm = nullptr;    // [hidden]
  float* qkv = nullptr;           // [(heads + 2 kv_heads) head_dim, hidden]
  float* qkv_bias = nullptr;      // [(heads + 2 kv_heads) head_dim]
  float* o = nullptr;             // [hidden, heads head_dim]
  float* o_bias = nullptr;        // [hidden]
  float* post_norm = nullptr;     // [hidden]
  float* gate_up = nullptr;       // [2 intermediate, hidden]
  float* gate_up_bias = nullptr;  // [2 intermediate]
  float* down = nullptr;          // [hidden, intermediate]
  float* down_bias = nullptr;     // [hidden]
};

struct LlamaParameters {
  float* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LlamaLayerParameters> layers;
  float* norm = nullptr;     // [hidden]
  float* lm_head = nullptr;  // [vocabulary, hidden]; the embedding if they are tied
};

// The pointers are valid as long as a copy of `weights` lives. InvalidArgument if its layout is not the one of `config`
// in float32.
absl::StatusOr<LlamaParameters> LlamaParametersOf(const ModelConfig& config, const ModelWeights& weights);

}  // namespace troupe
