// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <limits>

#include "kernels/log_softmax/log_softmax.h"

namespace troupe::kernels {

SoftmaxStats SoftmaxStatsReference(const float* logits, int64_t vocabulary, float temperature) {
  SoftmaxStats stats{.max = -std::numeric_limits<float>::infinity()};
  for (int64_t i = 0; i < vocabulary; ++i) {
    const float value = logits[i] / temperature;
    if (std::isnan(value)) stats.finite = false;
    if (value > stats.max) {
      stats.max = value;
      stats.argmax = static_cast<int32_t>(i);
    }
  }
  stats.finite = stats.finite && std::isfinite(stats.max);
  if (!stats.finite) return stats;
  for (int64_t i = 0; i < vocabulary; ++i) {
    stats.sum_exp += std::exp(static_cast<double>(logits[i] / temperature) - stats.max);
  }
  return stats;
}

void LogSoftmaxGatherReference(const float* logits, const int32_t* tokens, int64_t rows, int64_t vocabulary,
                               float temperature, double* logprobs) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* row_logits = logits + row * vocabulary;
    const SoftmaxStats stats = SoftmaxStatsReference(row_logits, vocabulary, temperature);
    logprobs[row] = LogProbability(row_logits, temperature, stats, tokens[row]);
  }
}

double LogProbability(const float* logits, float temperature, const SoftmaxStats& stats, int64_t token) {
  if (!stats.finite) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(logits[token] / temperature) - stats.max - std::log(stats.sum_exp);
}

}  // namespace troupe::kernels
