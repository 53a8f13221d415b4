// SPDX-License-Identifier: Apache-2.0
// The tokenizer inside a GGUF file, as the files that Hugging Face's libraries read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actors/model/files/gguf.h"
#include "actors/tokenizer/tokenizer.h"

namespace troupe {

// UNIMPLEMENTED: a tokenizer model or pre-tokenizer that is not supported, with those that are.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const GgufFile& file);

}  // namespace troupe
