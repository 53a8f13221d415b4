// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/avx2_math.h"
#include "kernels/rope/rope.h"

namespace troupe::kernels {
namespace {

// half is a multiple of 8.
TROUPE_AVX2 void RotateRow(float* row, const float* cos, const float* sin, const RopeShape& shape) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t head = 0; head < shape.heads; ++head) {
    float* low = row + head * shape.head_dim;
    float* high = low + half;
    for (int64_t i = 0; i < half; i += 8) {
      const __m256 a = _mm256_loadu_ps(low + i);
      const __m256 b = _mm256_loadu_ps(high + i);
      const __m256 c = _mm256_loadu_ps(cos + i);
      const __m256 s = _mm256_loadu_ps(sin + i);
      _mm256_storeu_ps(low + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
      _mm256_storeu_ps(high + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
  }
}

}  // namespace

void Rope(float* x, const int64_t* positions, const float* cos, const float* sin, const RopeShape& shape,
          const Parallel& parallel) {
  const int64_t half = shape.head_dim / 2;
  if (!HasAvx2() || half % 8 != 0) return RopeReference(x, positions, cos, sin, shape);
  parallel.ForRows(shape.rows, shape.heads * shape.head_dim, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RotateRow(x + row * shape.row_stride, cos + positions[row] * half, sin + positions[row] * half, shape);
    }
  });
}

}  // namespace troupe::kernels
