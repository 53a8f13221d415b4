// SPDX-License-Identifier: Apache-2.0
// The angles of rotary position embeddings: frequencies stretched as config.rope_scaling says.
#pragma once

#include <vector>

#include "actors/model/files/model_config.h"

namespace troupe {

struct RopeFrequencies {
  std::vector<float> inv_freq;  // [head_dim / 2], radians a position
  float attention_scaling = 1;  // cosines and sines are multiplied by it (yarn)
};

// Positions within max_position_embeddings: there `dynamic` is not stretched.
// Sources: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN), transformers modeling_rope_utils (llama3).
RopeFrequencies ComputeRopeFrequencies(const ModelConfig& config);

}  // namespace troupe
