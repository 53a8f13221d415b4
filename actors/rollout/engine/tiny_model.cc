// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/tiny_model.h"

#include <algorithm>
#include <random>

namespace troupe::rollout {

ModelConfig TinyConfig() {
  ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 128;
  config.eos_token_ids = {2};
  return config;
}

ModelWeights TinyWeights(uint32_t seed) {
  ModelWeights weights = ModelWeights::Allocate(LayoutOf(TinyConfig(), ElementType::kF32).value());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  for (const WeightEntry& entry : weights.layout().entries) {
    std::span<float> values = weights.Float32(entry.name);
    const bool norm = entry.name.find("norm") != std::string::npos;
    std::generate(values.begin(), values.end(), [&] { return norm ? 1.0f : normal(random); });
  }
  return weights;
}

int64_t TinyPageBytes() {
  const ModelConfig config = TinyConfig();
  return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 8 *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace troupe::rollout
