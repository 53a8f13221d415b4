// SPDX-License-Identifier: Apache-2.0
// Raw pointers to the parameters of a Llama model (or to their gradients) inside ModelWeights, fused where neighbours.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "actors/model/files/model_config.h"
#include "actors/model/weights.h"

namespace troupe::packed {

// Biases are null where the model has none.
struct LlamaLayer {
  float* input_norm = nullptr;  // [hidden]
  float* qkv = nullptr;         // [(heads + 2 kv_heads) head_dim, hidden]
  float* qkv_bias = nullptr;
  float* o = nullptr;  // [hidden, heads head_dim]
  float* o_bias = nullptr;
  float* post_norm = nullptr;
  float* gate_up = nullptr;  // [2 intermediate, hidden]
  float* gate_up_bias = nullptr;
  float* down = nullptr;  // [hidden, intermediate]
  float* down_bias = nullptr;
};

struct LlamaWeights {
  float* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LlamaLayer> layers;
  float* norm = nullptr;
  float* lm_head = nullptr;  // equals embedding if tied
};

// InvalidArgument names a parameter that is missing, not float32, of another size, or not beside its neighbour.
absl::StatusOr<LlamaWeights> LlamaWeightsOf(const ModelConfig& config, const ModelWeights& weights);

}  // namespace troupe::packed
