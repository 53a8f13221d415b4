// SPDX-License-Identifier: Apache-2.0
// A model's architecture from the metadata of its GGUF file.
#pragma once

#include "absl/status/statusor.h"
#include "actors/model/files/gguf.h"
#include "actors/model/files/model_config.h"

namespace troupe {

// Also looks at which tensors there are: no output.weight means tied embeddings, attn_q.bias a biased attention.
absl::StatusOr<ModelConfig> ConfigFromGguf(const GgufFile& file);

}  // namespace troupe
