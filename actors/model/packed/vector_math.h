// SPDX-License-Identifier: Apache-2.0
// Small float32 loops that the compiler turns into vector code. Private to this folder.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vectorised.h"

namespace troupe::packed {

// exp(x) to about 2 units in the last place; 0 below -87, finite above 88.
TROUPE_INLINE float FastExp(float x) {
  const float kept = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = kept * 1.44269504088896341f + 12582912.0f;  // rounds to whole in the low bits
  const float whole = shifted - 12582912.0f;
  const float r = (kept - whole * 0.693145751953125f) - whole * 1.42860682030941723212e-6f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;  // the low bits of `shifted` are the exponent
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale;
}

TROUPE_INLINE float Dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += alpha x
TROUPE_INLINE void Axpy(float alpha, const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += alpha * x[i];
}

}  // namespace troupe::packed
