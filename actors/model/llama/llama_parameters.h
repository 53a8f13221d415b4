// SPDX-License-Identifier: Apache-2.0
// Where the parameters of a Llama model lie in its ModelWeights, neighbours as one matrix.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe {

// float32, row-major; a bias is null where the model has none.
struct LlamaLayerParameters {
  const float* input_norm = nullptr;    // [hidden]
  const float* qkv = nullptr;           // [(heads + 2 kv_heads) head_dim, hidden]
  const float* qkv_bias = nullptr;      // [(heads + 2 kv_heads) head_dim]
  const float* o = nullptr;             // [hidden, heads head_dim]
  const float* o_bias = nullptr;        // [hidden]
  const float* post_norm = nullptr;     // [hidden]
  const float* gate_up = nullptr;       // [2 intermediate, hidden]
  const float* gate_up_bias = nullptr;  // [2 intermediate]
  const float* down = nullptr;          // [hidden, intermediate]
  const float* down_bias = nullptr;     // [hidden]
};

struct LlamaParameters {
  const float* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LlamaLayerParameters> layers;
  const float* norm = nullptr;     // [hidden]
  const float* lm_head = nullptr;  // [vocabulary, hidden]; the embedding if they are tied
};

// The pointers are valid as long as a copy of `weights` lives. InvalidArgument if its layout is not the one of `config`
// in float32.
absl::StatusOr<LlamaParameters> LlamaParametersOf(const ModelConfig& config, const ModelWeights& weights);

}  // namespace troupe
