// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/log_softmax/log_softmax.h"
#include "kernels/sampling/sampling.h"

namespace troupe::kernels {
namespace {

// How many of the highest are sorted at first, and how much more at a time, until top_p is reached.
constexpr int64_t kFirstSorted = 64;
constexpr int64_t kGrowth = 8;

// The whole distribution: finds the block by the parts of the sum, then the token in it.
int32_t SampleWhole(const float* logits, int64_t vocabulary, float temperature, double uniform,
                    const SoftmaxStats& stats, const std::vector<double>& block_sums) {
  const double target = uniform * stats.sum_exp;
  double before = 0;
  int64_t block = 0;
  int64_t last_used = 0;  // rounding may leave the target a hair beyond the end
  for (; block < static_cast<int64_t>(block_sums.size()); ++block) {
    if (block_sums[block] > 0) last_used = block;
    if (before + block_sums[block] > target) break;
    before += block_sums[block];
  }
  if (block == static_cast<int64_t>(block_sums.size())) before -= block_sums[block = last_used];
  const int64_t begin = block * kSoftmaxBlock;
  const int64_t count = std::min(kSoftmaxBlock, vocabulary - begin);
  float terms[kSoftmaxBlock];
  SoftmaxTerms(logits + begin, count, temperature, stats.max, terms);
  int64_t chosen = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (terms[i] == 0) continue;
    chosen = i;
    before += terms[i];
    if (before > target) break;
  }
  return static_cast<int32_t>(begin + chosen);
}

SampledToken SampleRow(const float* logits, int64_t vocabulary, const SamplingRow& parameters,
                       std::vector<double>& block_sums) {
  const SoftmaxStats stats = SoftmaxStatsOf(logits, vocabulary, parameters.temperature, block_sums.data());
  if (!stats.finite) return {.finite = false};
  SampledToken sampled;
  if (parameters.greedy) {
    sampled.token = stats.argmax;
  } else if ((parameters.top_k <= 0 || parameters.top_k >= vocabulary) && parameters.top_p >= 1 &&
             parameters.min_p <= 0) {
    sampled.token = SampleWhole(logits, vocabulary, parameters.temperature, parameters.uniform, stats, block_sums);
  } else {
    double total = 0;
    const std::vector<Survivor> survivors = Filter(logits, vocabulary, parameters, stats.max, stats.sum_exp, total);
    double cumulative = 0;
    double term = 0;
    for (const Survivor& survivor : survivors) {
      if (survivor.term == 0) continue;
      sampled.token = survivor.token;
      term = survivor.term;
      cumulative += term;
      if (cumulative > parameters.uniform * total) break;
    }
    sampled.logprob = LogProbability(logits, parameters.temperature, stats, sampled.token);
    sampled.filtered_logprob = std::log(term / total);
    return sampled;
  }
  sampled.logprob = LogProbability(logits, parameters.temperature, stats, sampled.token);
  sampled.filtered_logprob = parameters.greedy ? 0 : sampled.logprob;
  return sampled;
}

}  // namespace

void SampleRows(const float* logits, int64_t rows, int64_t vocabulary, const SamplingRow* parameters,
                SampledToken* tokens, const Parallel& parallel) {
  parallel.ForRows(rows, 4 * vocabulary, [&](int64_t begin, int64_t end) {
    std::vector<double> block_sums(SoftmaxBlocks(vocabulary));
    for (int64_t row = begin; row < end; ++row) {
      tokens[row] = SampleRow(logits + row * vocabulary, vocabulary, parameters[row], block_sums);
    }
  });
}

std::vector<Survivor> Filter(const float* logits, int64_t vocabulary, const SamplingRow& parameters, float max,
                             double sum_exp, double& total) {
  const auto higher = [logits](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const auto term = [&](int32_t token) {
    return std::exp(static_cast<double>(logits[token] / parameters.temperature) - max);
  };
  std::vector<int32_t> order(vocabulary);
  std::iota(order.begin(), order.end(), 0);
  int64_t sorted = 0;
  const auto sort_up_to = [&](int64_t count) {
    std::nth_element(order.begin() + sorted, order.begin() + count - 1, order.end(), higher);
    std::sort(order.begin() + sorted, order.begin() + count, higher);
    sorted = count;
  };
  if (parameters.top_k > 0 && parameters.top_k < vocabulary) {
    sort_up_to(parameters.top_k);
    if (parameters.top_k_keeps_ties) {
      const float least = logits[order[sorted - 1]];
      const auto rest =
          std::partition(order.begin() + sorted, order.end(), [&](int32_t i) { return logits[i] == least; });
      std::sort(order.begin() + sorted, rest);
      sorted = rest - order.begin();
    }
    order.resize(sorted);
    sum_exp = 0;
    for (int32_t token : order) sum_exp += term(token);
  }
  const int64_t size = static_cast<int64_t>(order.size());
  int64_t kept = size;
  total = sum_exp;
  if (parameters.top_p < 1) {
    total = 0;
    for (kept = 0; kept < size && (kept < parameters.min_kept || total < parameters.top_p * sum_exp); ++kept) {
      if (kept == sorted) sort_up_to(std::min(size, std::max(kFirstSorted, sorted * kGrowth)));
      total += term(order[kept]);
    }
  }
  order.resize(kept);
  std::sort(order.begin(), order.end());
  std::vector<Survivor> survivors;
  survivors.reserve(order.size());
  total = 0;
  for (int32_t token : order) {
    const Survivor survivor{token, term(token)};
    if (survivor.term < parameters.min_p) continue;  // the most likely one's is 1
    survivors.push_back(survivor);
    total += survivor.term;
  }
  return survivors;
}

}  // namespace troupe::kernels
