// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/log_softmax/log_softmax.h"
#include "kernels/sampling/sampling.h"

namespace troupe::kernels {

SampledToken SampleRowReference(const float* logits, int64_t vocabulary, const SamplingRow& parameters) {
  const SoftmaxStats stats = SoftmaxStatsReference(logits, vocabulary, parameters.temperature);
  if (!stats.finite) return {.finite = false};
  const auto result = [&](int32_t token, double filtered) {
    return SampledToken{token, LogProbability(logits, parameters.temperature, stats, token), filtered};
  };
  if (parameters.greedy) return result(stats.argmax, 0);

  std::vector<int32_t> order(vocabulary);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  const auto term = [&](int32_t token) {
    return std::exp(static_cast<double>(logits[token] / parameters.temperature) - stats.max);
  };
  const auto total = [&] {
    double sum = 0;
    for (int32_t token : order) sum += term(token);
    return sum;
  };
  if (parameters.top_k > 0 && parameters.top_k < vocabulary) {
    int64_t kept = parameters.top_k;
    const float least = logits[order[kept - 1]];
    while (parameters.top_k_keeps_ties && kept < vocabulary && logits[order[kept]] == least) ++kept;
    order.resize(kept);
  }
  if (parameters.top_p < 1) {
    const double sum = total();
    double before = 0;
    int64_t kept = 0;
    while (kept < static_cast<int64_t>(order.size()) && (kept < parameters.min_kept || before < parameters.top_p * sum))
      before += term(order[kept++]);
    order.resize(kept);
  }
  const double highest = term(order.front());
  std::erase_if(order, [&](int32_t token) { return term(token) < parameters.min_p * highest; });
  std::sort(order.begin(), order.end());
  const double sum = total();
  double cumulative = 0;
  int32_t chosen = order.front();
  for (int32_t token : order) {
    if (term(token) == 0) continue;
    chosen = token;
    cumulative += term(token);
    if (cumulative > parameters.uniform * sum) break;
  }
  return result(chosen, std::log(term(chosen) / sum));
}

}  // namespace troupe::kernels
