// SPDX-License-Identifier: Apache-2.0
// Tiny random models for tests and for training from scratch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "actors/model/files/model_config.h"
#include "actors/tokenizer/tokenizer.h"

namespace troupe {

// The model of examples/even_digits: Llama of 2 layers, width 64, vocabulary 32 (pad, eos, 0-9a-t), tied embeddings.
ModelConfig EvenDigitsConfig();

// Writes a Hugging Face folder with weights from N(0, initializer_range) (norms 1, biases 0) that depend only on
// `config` and `seed`, and the tokenizer; null: one of one token a character: <pad>, <eos>, then 0-9a-z... (vocab_size
// <= 64). INVALID_ARGUMENT: the vocabulary is too small for the tokenizer, or too large for that one.
absl::Status MakeRandomModel(const ModelConfig& config, uint64_t seed, const std::string& dir,
                             const Tokenizer* tokenizer = nullptr);

}  // namespace troupe
