// SPDX-License-Identifier: Apache-2.0
//
// Choosing the next token: temperature, top-k, top-p, min-p, then the inverse of the cumulative distribution.
// What depends on the tokens so far (penalties.h) comes before.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/parallel.h"

namespace troupe::kernels {

struct SamplingRow {
  float temperature = 1.0f;  // > 0; logits are divided by it
  bool greedy = false;       // the highest logit, the lowest id among equals; the cuts and uniform are not looked at
  int64_t top_k = 0;         // 0 or >= vocabulary: no cut
  double top_p = 1.0;        // >= 1: no cut
  double min_p = 0;          // in [0, 1]; 0: no cut
  int64_t min_kept = 1;      // >= 1: top_p leaves at least so many
  double uniform = 0;        // in [0, 1)
  // Transformers keeps every logit equal to the k-th, so that more than k may survive; here exactly k do, ties by lower
  // id.
  bool top_k_keeps_ties = false;
};

struct SampledToken {
  int32_t token = 0;
  double logprob = 0;           // under softmax(logits / temperature)
  double filtered_logprob = 0;  // after the cuts, renormalised; 0 if greedy
  bool finite = true;           // false if the row has NaN or +inf, or only -inf: nothing was chosen
};

// For each row the smallest id i with cumsum(p)[i] > uniform, p in order of ids and in double precision.
// logits: [rows, vocabulary]; parameters, tokens: [rows].
void SampleRows(const float* logits, int64_t rows, int64_t vocabulary, const SamplingRow* parameters,
                SampledToken* tokens, const Parallel& parallel = {});

// The simplest way to the same: everything sorted, everything in double precision.
SampledToken SampleRowReference(const float* logits, int64_t vocabulary, const SamplingRow& parameters);

struct Survivor {
  int32_t token = 0;
  double term = 0;  // exp(logit / temperature - max)
};

// What is left after top_k, top_p and min_p, by ascending id; at least one token. `total` is the sum of the terms.
// top_p acts on what top_k left, renormalised: a token survives if those before it (higher, or equal with a lower id)
// have less than top_p together. min_p leaves those at least min_p times as likely as the most likely. `sum_exp`: of
// the whole row (SoftmaxStats), `max` likewise.
std::vector<Survivor> Filter(const float* logits, int64_t vocabulary, const SamplingRow& parameters, float max,
                             double sum_exp, double& total);

}  // namespace troupe::kernels
