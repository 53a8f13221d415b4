// SPDX-License-Identifier: Apache-2.0
//
// Small AVX2 building blocks: exp of eight floats, horizontal sums and maxima.

#pragma once

#include <immintrin.h>

#include "kernels/cpu/features.h"

namespace troupe::kernels {

// exp(x), relative error below 2 ulp; 0 below -87.3 (and for -inf), inf above 88.7; NaN stays NaN.
// Cody-Waite reduction by ln 2 in two parts, then a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2] (Cephes'
// coefficients).
TROUPE_AVX2 inline __m256 Exp8(__m256 x) {
  const __m256 low = _mm256_set1_ps(-87.33654f);
  const __m256 high = _mm256_set1_ps(88.72283f);
  const __m256 underflow = _mm256_cmp_ps(x, low, _CMP_LT_OQ);
  const __m256 overflow = _mm256_cmp_ps(x, high, _CMP_GT_OQ);
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  const __m256 clamped = _mm256_min_ps(_mm256_max_ps(x, low), high);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), clamped);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
  // 2^n in two factors: n reaches 128, where one exponent field would overflow.
  const __m256i half = _mm256_srai_epi32(_mm256_cvtps_epi32(n), 1);
  const __m256i rest = _mm256_sub_epi32(_mm256_cvtps_epi32(n), half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 scale0 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 scale1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  __m256 result = _mm256_mul_ps(_mm256_mul_ps(p, scale0), scale1);
  result = _mm256_andnot_ps(underflow, result);
  result = _mm256_blendv_ps(result, _mm256_set1_ps(__builtin_inff()), overflow);
  return _mm256_blendv_ps(result, x, nan);
}

TROUPE_AVX2 inline float Sum8(__m256 x) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

TROUPE_AVX2 inline float Max8(__m256 x) {
  __m128 max = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  max = _mm_max_ps(max, _mm_movehl_ps(max, max));
  return _mm_cvtss_f32(_mm_max_ss(max, _mm_movehdup_ps(max)));
}

// The sum of eight floats as doubles.
TROUPE_AVX2 inline __m256d WidenAndAdd(__m256d sum, __m256 x) {
  sum = _mm256_add_pd(sum, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
  return _mm256_add_pd(sum, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

TROUPE_AVX2 inline double Sum4(__m256d x) {
  const __m128d sum = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(sum, _mm_unpackhi_pd(sum, sum)));
}

}  // namespace troupe::kernels
