// SPDX-License-Identifier: Apache-2.0
//
// Where each parameter of a model lies in one contiguous buffer: the agreement between the trainer, which
// publishes a version as one sealed memory file, and the rollouts, which map that file and compute on it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actors/model/files/element_type.h"
#include "actors/model/files/model_config.h"

namespace troupe {

struct WeightEntry {
  std::string name;  // as in a Hugging Face checkpoint: "model.layers.0.self_attn.q_proj.weight"
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;  // row major; a projection is [out_features, in_features]
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;

  int64_t elements() const;
};

// A pure function of (config, type): two processes that agree on these agree on every byte.
//
// Order: the embedding, then layer by layer, the final norm, and the LM head where it is not tied. Parameters that one
// matrix product can serve are neighbours without a gap: q, k, v (weights, then biases) and gate, up. Each such group,
// and every other parameter, starts at a multiple of 64 bytes; the bytes between are zero.
struct WeightLayout {
  std::vector<WeightEntry> entries;
  int64_t total_bytes = 0;

  // Null if the model has no parameter of this name.
  const WeightEntry* Find(std::string_view name) const;
};

// InvalidArgument for sizes that are not positive or overflow.
absl::StatusOr<WeightLayout> LayoutOf(const ModelConfig& config, ElementType type);

}  // namespace troupe
