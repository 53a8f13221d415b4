// SPDX-License-Identifier: Apache-2.0
// The tensor types of GGUF files (plain and block-quantised) and their values as float32.
// Layouts: ggml's ggml-common.h; a block holds a fixed number of consecutive elements of a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace troupe {

// Numbers are those of the file format.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgmlTypeTraits {
  GgmlType type;
  const char* name;         // "Q4_1"
  uint32_t block_elements;  // 1 for plain types
  uint32_t block_bytes;
  void (*dequantise)(const uint8_t* block, float* out);  // one block
};

// UNIMPLEMENTED for a type number that is not known, with those that are.
absl::StatusOr<const GgmlTypeTraits*> FindGgmlType(uint32_t number);

// `out` is a whole number of blocks and `bytes` exactly those blocks; INVALID_ARGUMENT otherwise.
absl::Status Dequantise(const GgmlTypeTraits& traits, absl::Span<const std::byte> bytes, absl::Span<float> out);

}  // namespace troupe
