// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include "kernels/cpu/avx2_math.h"
#include "kernels/rms_norm/rms_norm.h"

namespace troupe::kernels {
namespace {

// x may be null: then the row is taken as it is, else residual += x first.
TROUPE_AVX2 void NormRow(const float* x, const float* weight, float* residual, const float* input, float* y,
                         const RmsNormShape& shape) {
  const int64_t width = shape.width;
  const int64_t vectors = width / 8 * 8;
  __m256 sum0 = _mm256_setzero_ps();
  float rest = 0;
  for (int64_t i = 0; i < vectors; i += 8) {
    __m256 value = _mm256_loadu_ps(input + i);
    if (x != nullptr) {
      value = _mm256_add_ps(value, _mm256_loadu_ps(x + i));
      _mm256_storeu_ps(residual + i, value);
    }
    sum0 = _mm256_fmadd_ps(value, value, sum0);
  }
  for (int64_t i = vectors; i < width; ++i) {
    float value = input[i];
    if (x != nullptr) residual[i] = value += x[i];
    rest += value * value;
  }
  const float scale = 1.0f / std::sqrt((Sum8(sum0) + rest) / static_cast<float>(width) + shape.eps);
  const __m256 scales = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < vectors; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(input + i), scales);
    _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(weight + i), scaled));
  }
  for (int64_t i = vectors; i < width; ++i) y[i] = weight[i] * (input[i] * scale);
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float* y, const RmsNormShape& shape, const Parallel& parallel) {
  if (!HasAvx2()) return RmsNormReference(x, weight, y, shape);
  parallel.ForRows(shape.rows, shape.width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      NormRow(nullptr, weight, nullptr, x + row * shape.width, y + row * shape.width, shape);
    }
  });
}

void AddRmsNorm(const float* x, const float* weight, float* residual, float* y, const RmsNormShape& shape,
                const Parallel& parallel) {
  if (!HasAvx2()) return AddRmsNormReference(x, weight, residual, y, shape);
  parallel.ForRows(shape.rows, shape.width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* residual_row = residual + row * shape.width;
      NormRow(x + row * shape.width, weight, residual_row, residual_row, y + row * shape.width, shape);
    }
  });
}

}  // namespace troupe::kernels
