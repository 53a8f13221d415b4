// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in files, and conversion to and from float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace troupe {

enum class ElementType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

int64_t ElementBytes(ElementType type);

// As safetensors spells it: F32, BF16, I64, BOOL...
const char* ElementTypeName(ElementType type);
absl::StatusOr<ElementType> ParseElementType(std::string_view name);

// From the name of a dtype as users write it: float32, bfloat16, float16 (also fp32, bf16, fp16).
absl::StatusOr<ElementType> ParseDtype(std::string_view name);

float HalfToFloat(uint16_t bits);
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);      // round to nearest even
uint16_t FloatToBFloat16(float value);  // round to nearest even; NaN stays NaN

// `bytes` holds out.size() little-endian elements of `type`, at any alignment. UNIMPLEMENTED for bool.
absl::Status ElementsToFloats(ElementType type, absl::Span<const std::byte> bytes, absl::Span<float> out);

// The reverse, for kF32, kF16 and kBF16; `bytes` has values.size() * ElementBytes(type) bytes.
absl::Status FloatsToElements(ElementType type, absl::Span<const float> values, absl::Span<std::byte> bytes);

}  // namespace troupe
