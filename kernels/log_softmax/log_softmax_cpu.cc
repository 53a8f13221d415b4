// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/avx2_math.h"
#include "kernels/log_softmax/log_softmax.h"

namespace troupe::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The maximum of logits (before the temperature), -inf if empty; `nan` is set if there is one.
TROUPE_AVX2 float MaxOf(const float* logits, int64_t count, bool& nan) {
  __m256 max0 = _mm256_set1_ps(-kInfinity);
  __m256 max1 = max0;
  __m256 unordered = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256 a = _mm256_loadu_ps(logits + i);
    const __m256 b = _mm256_loadu_ps(logits + i + 8);
    max0 = _mm256_max_ps(a, max0);
    max1 = _mm256_max_ps(b, max1);
    unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  nan = _mm256_movemask_ps(unordered) != 0;
  float max = Max8(_mm256_max_ps(max0, max1));
  for (; i < count; ++i) {
    nan = nan || std::isnan(logits[i]);
    max = std::max(max, logits[i]);
  }
  return max;
}

// The first position of `value`, which is there.
TROUPE_AVX2 int64_t Find(const float* logits, int64_t count, float value) {
  const __m256 wanted = _mm256_set1_ps(value);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const int mask = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(logits + i), wanted, _CMP_EQ_OQ));
    if (mask != 0) return i + __builtin_ctz(static_cast<unsigned>(mask));
  }
  while (logits[i] != value) ++i;
  return i;
}

TROUPE_AVX2 void Terms(const float* logits, int64_t count, float temperature, float max, float* terms) {
  const __m256 divisor = _mm256_set1_ps(temperature);
  const __m256 shift = _mm256_set1_ps(max);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 scaled = _mm256_div_ps(_mm256_loadu_ps(logits + i), divisor);
    _mm256_storeu_ps(terms + i, Exp8(_mm256_sub_ps(scaled, shift)));
  }
  if (i == count) return;
  alignas(32) float rest[8];
  std::fill_n(rest, 8, -kInfinity);
  std::copy(logits + i, logits + count, rest);
  _mm256_store_ps(rest, Exp8(_mm256_sub_ps(_mm256_div_ps(_mm256_load_ps(rest), divisor), shift)));
  std::copy_n(rest, count - i, terms + i);
}

TROUPE_AVX2 double SumOf(const float* terms, int64_t count) {
  __m256d sum = _mm256_setzero_pd();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) sum = WidenAndAdd(sum, _mm256_loadu_ps(terms + i));
  double total = Sum4(sum);
  for (; i < count; ++i) total += terms[i];
  return total;
}

}  // namespace

SoftmaxStats SoftmaxStatsOf(const float* logits, int64_t vocabulary, float temperature, double* block_sums) {
  SoftmaxStats stats;
  if (HasAvx2()) {
    bool nan = false;
    const float max = MaxOf(logits, vocabulary, nan);
    stats.finite = !nan && std::isfinite(max) && std::isfinite(max / temperature);
    if (!stats.finite) return stats;
    stats.argmax = static_cast<int32_t>(Find(logits, vocabulary, max));
    stats.max = max / temperature;
  } else {
    stats = SoftmaxStatsReference(logits, vocabulary, temperature);
    if (!stats.finite) return stats;
    stats.sum_exp = 0;
  }
  float terms[kSoftmaxBlock];
  for (int64_t begin = 0, block = 0; begin < vocabulary; begin += kSoftmaxBlock, ++block) {
    const int64_t count = std::min(kSoftmaxBlock, vocabulary - begin);
    SoftmaxTerms(logits + begin, count, temperature, stats.max, terms);
    double sum = 0;
    if (HasAvx2()) {
      sum = SumOf(terms, count);
    } else {
      for (int64_t i = 0; i < count; ++i) sum += terms[i];
    }
    if (block_sums != nullptr) block_sums[block] = sum;
    stats.sum_exp += sum;
  }
  return stats;
}

void SoftmaxTerms(const float* logits, int64_t count, float temperature, float max, float* terms) {
  if (HasAvx2()) return Terms(logits, count, temperature, max, terms);
  for (int64_t i = 0; i < count; ++i) terms[i] = std::exp(logits[i] / temperature - max);
}

void LogSoftmaxGather(const float* logits, const int32_t* tokens, int64_t rows, int64_t vocabulary, float temperature,
                      double* logprobs, const Parallel& parallel) {
  parallel.ForRows(rows, 4 * vocabulary, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* row_logits = logits + row * vocabulary;
      const SoftmaxStats stats = SoftmaxStatsOf(row_logits, vocabulary, temperature);
      logprobs[row] = LogProbability(row_logits, temperature, stats, tokens[row]);
    }
  });
}

}  // namespace troupe::kernels
