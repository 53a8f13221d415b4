// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include "kernels/cpu/avx2_math.h"
#include "kernels/silu_mul/silu_mul.h"

namespace troupe::kernels {
namespace {

TROUPE_AVX2 void SiluMulRow(const float* gate, const float* up, float* out, int64_t width) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 zero = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    const __m256 g = _mm256_loadu_ps(gate + i);
    const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, Exp8(_mm256_sub_ps(zero, g))));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
  }
  for (; i < width; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

}  // namespace

void SiluMul(const float* gate_up, float* out, int64_t rows, int64_t width, const Parallel& parallel) {
  if (!HasAvx2()) return SiluMulReference(gate_up, out, rows, width);
  parallel.ForRows(rows, 4 * width, [&](int64_t begin, int64_t end) {  // an exp is worth some loads
    for (int64_t row = begin; row < end; ++row) {
      const float* gate = gate_up + row * 2 * width;
      SiluMulRow(gate, gate + width, out + row * width, width);
    }
  });
}

}  // namespace troupe::kernels
