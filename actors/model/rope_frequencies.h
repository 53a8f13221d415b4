// SPDX-License-Identifier: Apache-2.0
// The angles of rotary position embeddings: frequencies stretched as config.rope_scaling says.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/model/files/model_config.h"

namespace troupe {

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [head_dim / 2], radians a position
  float attention_scaling = 1;  // cosines and sines are multiplied by it (yarn)
};

// `length`: tokens of the whole sequence. Only `dynamic` looks at it, and only beyond the context it was trained on; 0
// is any length within that.
// Sources: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN), transformers modeling_rope_utils (llama3, dynamic).
RopeFrequencies ComputeRopeFrequencies(const ModelConfig& config, int64_t length = 0);

}  // namespace troupe
