// SPDX-License-Identifier: Apache-2.0
// Dequantisation of GGUF's block types. Products and sums are rounded one by one, as the reference does (this file is
// compiled without contraction), so that values are equal to it bit for bit.
#include "actors/model/files/ggml_type.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "actors/model/files/element_type.h"

namespace troupe {
namespace {

uint16_t Load16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }
uint32_t Load32(const uint8_t* p) { return Load16(p) | (static_cast<uint32_t>(Load16(p + 2)) << 16); }
float LoadHalf(const uint8_t* p) { return HalfToFloat(Load16(p)); }

void F32(const uint8_t* b, float* y) { std::memcpy(y, b, 4); }
void F16(const uint8_t* b, float* y) { *y = LoadHalf(b); }
void BF16(const uint8_t* b, float* y) { *y = BFloat16ToFloat(Load16(b)); }

void Q4_0(const uint8_t* b, float* y) {  // d, 16 bytes of nibbles
  float d = LoadHalf(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b[2 + j] & 15) - 8) * d;
    y[j + 16] = static_cast<float>((b[2 + j] >> 4) - 8) * d;
  }
}

void Q4_1(const uint8_t* b, float* y) {  // d, m, 16 bytes of nibbles
  float d = LoadHalf(b), m = LoadHalf(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(b[4 + j] & 15) * d + m;
    y[j + 16] = static_cast<float>(b[4 + j] >> 4) * d + m;
  }
}

void Q5_0(const uint8_t* b, float* y) {  // d, 32 high bits, 16 bytes of nibbles
  float d = LoadHalf(b);
  uint32_t high = Load32(b + 2);
  for (int j = 0; j < 16; ++j) {
    int low_half = (b[6 + j] & 15) | static_cast<int>((high >> j) & 1) << 4;
    int high_half = (b[6 + j] >> 4) | static_cast<int>((high >> (j + 16)) & 1) << 4;
    y[j] = static_cast<float>(low_half - 16) * d;
    y[j + 16] = static_cast<float>(high_half - 16) * d;
  }
}

void Q5_1(const uint8_t* b, float* y) {  // d, m, 32 high bits, 16 bytes of nibbles
  float d = LoadHalf(b), m = LoadHalf(b + 2);
  uint32_t high = Load32(b + 4);
  for (int j = 0; j < 16; ++j) {
    int low_half = (b[8 + j] & 15) | static_cast<int>((high >> j) & 1) << 4;
    int high_half = (b[8 + j] >> 4) | static_cast<int>((high >> (j + 16)) & 1) << 4;
    y[j] = static_cast<float>(low_half) * d + m;
    y[j + 16] = static_cast<float>(high_half) * d + m;
  }
}

void Q8_0(const uint8_t* b, float* y) {  // d, 32 signed bytes
  float d = LoadHalf(b);
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<int8_t>(b[2 + j])) * d;
}

void Q2_K(const uint8_t* b, float* y) {  // 16 scales (low nibble) and minimums (high), 64 bytes of pairs, d, dmin
  const uint8_t* scales = b;
  const uint8_t* q = b + 16;
  float d = LoadHalf(b + 80), dmin = LoadHalf(b + 82);
  for (int part = 0; part < 16; ++part) {  // 16 elements each
    const uint8_t* source = q + (part / 8) * 32 + (part % 2) * 16;
    int shift = (part % 8) / 2 * 2;
    float scale = d * static_cast<float>(scales[part] & 15);
    float minimum = dmin * static_cast<float>(scales[part] >> 4);
    for (int l = 0; l < 16; ++l) *y++ = scale * static_cast<float>((source[l] >> shift) & 3) - minimum;
  }
}

// The 16 six-bit scales of Q3_K: low nibbles in 8 bytes, pairs of high bits in 4.
int Q3Scale(const uint8_t* scales, int part) {
  int low = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
  int high = (scales[8 + part % 4] >> (part / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

void Q3_K(const uint8_t* b, float* y) {  // 32 bytes of high bits, 64 bytes of pairs, 12 bytes of scales, d
  const uint8_t* high = b;
  const uint8_t* q = b + 32;
  float d = LoadHalf(b + 108);
  for (int part = 0; part < 16; ++part) {
    const uint8_t* source = q + (part / 8) * 32 + (part % 2) * 16;
    const uint8_t* mask = high + (part % 2) * 16;
    int shift = (part % 8) / 2 * 2;
    int bit = part / 2;
    float scale = d * static_cast<float>(Q3Scale(b + 96, part));
    for (int l = 0; l < 16; ++l) {
      int value = ((source[l] >> shift) & 3) - ((mask[l] >> bit) & 1 ? 0 : 4);
      *y++ = scale * static_cast<float>(value);
    }
  }
}

// The 8 six-bit scales and minimums of Q4_K and Q5_K, packed in 12 bytes.
void Q4Scale(const uint8_t* packed, int part, int& scale, int& minimum) {
  if (part < 4) {
    scale = packed[part] & 63;
    minimum = packed[part + 4] & 63;
  } else {
    scale = (packed[part + 4] & 15) | (packed[part - 4] >> 6) << 4;
    minimum = (packed[part + 4] >> 4) | (packed[part] >> 6) << 4;
  }
}

void Q4_K(const uint8_t* b, float* y) {  // d, dmin, 12 bytes of scales, 128 bytes of nibbles
  float d = LoadHalf(b), dmin = LoadHalf(b + 2);
  for (int part = 0; part < 8; ++part) {  // 32 elements each
    int scale, minimum;
    Q4Scale(b + 4, part, scale, minimum);
    float ds = d * static_cast<float>(scale), dm = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 16 + part / 2 * 32;
    int shift = part % 2 * 4;
    for (int l = 0; l < 32; ++l) *y++ = ds * static_cast<float>((q[l] >> shift) & 15) - dm;
  }
}

void Q5_K(const uint8_t* b, float* y) {  // d, dmin, 12 bytes of scales, 32 bytes of high bits, 128 bytes of nibbles
  float d = LoadHalf(b), dmin = LoadHalf(b + 2);
  const uint8_t* high = b + 16;
  for (int part = 0; part < 8; ++part) {
    int scale, minimum;
    Q4Scale(b + 4, part, scale, minimum);
    float ds = d * static_cast<float>(scale), dm = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 48 + part / 2 * 32;
    int shift = part % 2 * 4;
    for (int l = 0; l < 32; ++l) {
      int value = ((q[l] >> shift) & 15) | ((high[l] >> part) & 1) << 4;
      *y++ = ds * static_cast<float>(value) - dm;
    }
  }
}

void Q6_K(const uint8_t* b, float* y) {  // 128 bytes of nibbles, 64 of pairs of high bits, 16 signed scales, d
  float d = LoadHalf(b + 208);
  for (int part = 0; part < 8; ++part) {  // 32 elements each
    const uint8_t* low = b + part / 4 * 64 + part % 2 * 32;
    const uint8_t* high = b + 128 + part / 4 * 32;
    int low_shift = part % 4 / 2 * 4, high_shift = part % 4 * 2;
    for (int l = 0; l < 32; ++l) {
      int value = (((low[l] >> low_shift) & 15) | ((high[l] >> high_shift) & 3) << 4) - 32;
      float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + part * 2 + l / 16]));
      *y++ = scale * static_cast<float>(value);
    }
  }
}

constexpr GgmlTypeTraits kTraits[] = {
    {GgmlType::kF32, "F32", 1, 4, F32},        {GgmlType::kF16, "F16", 1, 2, F16},
    {GgmlType::kBF16, "BF16", 1, 2, BF16},     {GgmlType::kQ4_0, "Q4_0", 32, 18, Q4_0},
    {GgmlType::kQ4_1, "Q4_1", 32, 20, Q4_1},   {GgmlType::kQ5_0, "Q5_0", 32, 22, Q5_0},
    {GgmlType::kQ5_1, "Q5_1", 32, 24, Q5_1},   {GgmlType::kQ8_0, "Q8_0", 32, 34, Q8_0},
    {GgmlType::kQ2_K, "Q2_K", 256, 84, Q2_K},  {GgmlType::kQ3_K, "Q3_K", 256, 110, Q3_K},
    {GgmlType::kQ4_K, "Q4_K", 256, 144, Q4_K}, {GgmlType::kQ5_K, "Q5_K", 256, 176, Q5_K},
    {GgmlType::kQ6_K, "Q6_K", 256, 210, Q6_K},
};

}  // namespace

absl::StatusOr<const GgmlTypeTraits*> FindGgmlType(uint32_t number) {
  std::string known;
  for (const GgmlTypeTraits& traits : kTraits) {
    if (static_cast<uint32_t>(traits.type) == number) return &traits;
    absl::StrAppend(&known, known.empty() ? "" : ", ", traits.name);
  }
  return absl::UnimplementedError(absl::StrCat("GGUF tensor type ", number, " is not supported; supported: ", known));
}

absl::Status Dequantise(const GgmlTypeTraits& traits, absl::Span<const std::byte> bytes, absl::Span<float> out) {
  size_t blocks = out.size() / traits.block_elements;
  if (blocks * traits.block_elements != out.size() || blocks * traits.block_bytes != bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes of ", traits.name, " are not ", out.size(), " elements"));
  }
  const uint8_t* block = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t i = 0; i < blocks; ++i) {
    traits.dequantise(block + i * traits.block_bytes, out.data() + i * traits.block_elements);
  }
  return absl::OkStatus();
}

}  // namespace troupe
