// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/sampling/sampling.h"

namespace troupe::kernels {
namespace {

void Run(benchmark::State& state, const SamplingRow& parameters) {
  const int64_t vocabulary = 49152;
  std::vector<float> logits(vocabulary);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 2654435761u % 1000) / 100.0f;
  SampledToken token;
  for (auto _ : state) {
    SampleRows(logits.data(), 1, vocabulary, &parameters, &token);
    benchmark::DoNotOptimize(token);
  }
  state.SetItemsProcessed(state.iterations() * vocabulary);
}

void BM_Greedy(benchmark::State& state) { Run(state, {.greedy = true}); }
void BM_Temperature(benchmark::State& state) { Run(state, {.temperature = 0.7f, .uniform = 0.5}); }
void BM_TopK50(benchmark::State& state) { Run(state, {.top_k = 50, .uniform = 0.5}); }
void BM_TopP90(benchmark::State& state) { Run(state, {.top_p = 0.9, .uniform = 0.5}); }
BENCHMARK(BM_Greedy);
BENCHMARK(BM_Temperature);
BENCHMARK(BM_TopK50);
BENCHMARK(BM_TopP90);

}  // namespace
}  // namespace troupe::kernels
