// SPDX-License-Identifier: Apache-2.0
// Writing a model as a Hugging Face folder that Transformers loads: checkpoints, `export` and tiny test models.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/element_type.h"
#include "actors/model/files/model_config.h"

namespace troupe {

class Tokenizer;

// Gives the values of a parameter by its Hugging Face name. The span need only be valid until the next call.
using ParameterReader = std::function<absl::StatusOr<absl::Span<const float>>(const ParameterShape& parameter)>;

struct HuggingFaceFolderOptions {
  ElementType dtype = ElementType::kF32;    // kF32, kBF16 or kF16: what the weights are cast to
  int64_t shard_bytes_max = 5'000'000'000;  // more than this goes to shards with an index, as in Transformers
};

// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json, special_tokens_map.json and
// model.safetensors (or shards) into `dir`, which is made if missing, each synced to disk. `tokenizer` may be null:
// then no tokenizer files. Not atomic: whoever needs that writes into a folder aside and renames it.
// RESOURCE_EXHAUSTED: no space; other errors name the file.
absl::Status WriteHuggingFaceFolder(const std::string& dir, const ModelConfig& config, const Tokenizer* tokenizer,
                                    const ParameterReader& read, const HuggingFaceFolderOptions& options = {});

}  // namespace troupe
