// SPDX-License-Identifier: Apache-2.0
//
// Log-probabilities of given tokens, and what sampling needs to know about a row of logits. No array of [rows,
// vocabulary] is made.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

// About softmax(logits / temperature) of one row. -inf is a logit like another (probability 0).
struct SoftmaxStats {
  float max = 0;       // of logits / temperature
  int32_t argmax = 0;  // the lowest id among equals
  double sum_exp = 0;  // sum of exp(logits / temperature - max)
  bool finite = true;  // false if there is a NaN or +inf, or nothing but -inf: the rest means nothing then
};

// block_sums, if not null: [blocks of kSoftmaxBlock], the parts of sum_exp, added in order to give it.
SoftmaxStats SoftmaxStatsOf(const float* logits, int64_t vocabulary, float temperature, double* block_sums = nullptr);
SoftmaxStats SoftmaxStatsReference(const float* logits, int64_t vocabulary, float temperature);

inline constexpr int64_t kSoftmaxBlock = 512;
inline int64_t SoftmaxBlocks(int64_t vocabulary) { return (vocabulary + kSoftmaxBlock - 1) / kSoftmaxBlock; }

// exp(logits / temperature - max) of `count` neighbours, the very values that SoftmaxStatsOf summed.
void SoftmaxTerms(const float* logits, int64_t count, float temperature, float max, float* terms);

// log(softmax(logits / temperature)[token])
double LogProbability(const float* logits, float temperature, const SoftmaxStats& stats, int64_t token);

// logprobs[row] = log(softmax(logits[row] / temperature)[tokens[row]]); NaN for a row that is not finite.
// logits: [rows, vocabulary]; tokens, logprobs: [rows].
void LogSoftmaxGather(const float* logits, const int32_t* tokens, int64_t rows, int64_t vocabulary, float temperature,
                      double* logprobs, const Parallel& parallel = {});
void LogSoftmaxGatherReference(const float* logits, const int32_t* tokens, int64_t rows, int64_t vocabulary,
                               float temperature, double* logprobs);

}  // namespace troupe::kernels
