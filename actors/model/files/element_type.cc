// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in files, and conversion to and from float32.
#include "actors/model/files/element_type.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace troupe {
namespace {

struct TypeRow {
  ElementType type;
  const char* name;
  int64_t bytes;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kF64, "F64", 8},   {ElementType::kF32, "F32", 4}, {ElementType::kF16, "F16", 2},
    {ElementType::kBF16, "BF16", 2}, {ElementType::kI64, "I64", 8}, {ElementType::kI32, "I32", 4},
    {ElementType::kI16, "I16", 2},   {ElementType::kI8, "I8", 1},   {ElementType::kU64, "U64", 8},
    {ElementType::kU32, "U32", 4},   {ElementType::kU16, "U16", 2}, {ElementType::kU8, "U8", 1},
    {ElementType::kBool, "BOOL", 1},
};

const TypeRow& Row(ElementType type) { return kTypes[static_cast<int>(type)]; }

template <typename T>
void Convert(absl::Span<const std::byte> bytes, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

template <float (*kToFloat)(uint16_t)>
void Convert16(absl::Span<const std::byte> bytes, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + i * 2, 2);
    out[i] = kToFloat(bits);
  }
}

template <uint16_t (*kFromFloat)(float)>
void Convert16To(absl::Span<const float> values, absl::Span<std::byte> bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = kFromFloat(values[i]);
    std::memcpy(bytes.data() + i * 2, &bits, 2);
  }
}

}  // namespace

int64_t ElementBytes(ElementType type) { return Row(type).bytes; }

const char* ElementTypeName(ElementType type) { return Row(type).name; }

absl::StatusOr<ElementType> ParseElementType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return row.type;
  }
  return absl::UnimplementedError(absl::StrCat("the element type '", std::string(name), "' is not supported"));
}

absl::StatusOr<ElementType> ParseDtype(std::string_view name) {
  if (name == "float32" || name == "fp32") return ElementType::kF32;
  if (name == "bfloat16" || name == "bf16") return ElementType::kBF16;
  if (name == "float16" || name == "fp16") return ElementType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype '", std::string(name), "' is not one of float32, bfloat16, float16"));
}

float HalfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in float32
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t FloatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more: infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, in units of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

uint16_t FloatToBFloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

absl::Status ElementsToFloats(ElementType type, absl::Span<const std::byte> bytes, absl::Span<float> out) {
  if (bytes.size() != out.size() * static_cast<size_t>(ElementBytes(type))) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are not ", out.size(), " elements of ", ElementTypeName(type)));
  }
  switch (type) {
    case ElementType::kF32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      break;
    case ElementType::kF64:
      Convert<double>(bytes, out);
      break;
    case ElementType::kF16:
      Convert16<HalfToFloat>(bytes, out);
      break;
    case ElementType::kBF16:
      Convert16<BFloat16ToFloat>(bytes, out);
      break;
    case ElementType::kI64:
      Convert<int64_t>(bytes, out);
      break;
    case ElementType::kI32:
      Convert<int32_t>(bytes, out);
      break;
    case ElementType::kI16:
      Convert<int16_t>(bytes, out);
      break;
    case ElementType::kI8:
      Convert<int8_t>(bytes, out);
      break;
    case ElementType::kU64:
      Convert<uint64_t>(bytes, out);
      break;
    case ElementType::kU32:
      Convert<uint32_t>(bytes, out);
      break;
    case ElementType::kU16:
      Convert<uint16_t>(bytes, out);
      break;
    case ElementType::kU8:
      Convert<uint8_t>(bytes, out);
      break;
    case ElementType::kBool:
      return absl::UnimplementedError("bool elements are not converted to float32");
  }
  return absl::OkStatus();
}

absl::Status FloatsToElements(ElementType type, absl::Span<const float> values, absl::Span<std::byte> bytes) {
  if (bytes.size() != values.size() * static_cast<size_t>(ElementBytes(type))) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " elements of ", ElementTypeName(type), " do not fill ", bytes.size(), " bytes"));
  }
  switch (type) {
    case ElementType::kF32:
      if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
      return absl::OkStatus();
    case ElementType::kF16:
      Convert16To<FloatToHalf>(values, bytes);
      return absl::OkStatus();
    case ElementType::kBF16:
      Convert16To<FloatToBFloat16>(values, bytes);
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(absl::StrCat("float32 is not converted to ", ElementTypeName(type)));
  }
}

}  // namespace troupe
