// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/log_softmax/log_softmax.h"

namespace troupe::kernels {
namespace {

void BM_LogSoftmaxGather(benchmark::State& state) {
  const int64_t rows = state.range(0), vocabulary = 49152;
  std::vector<float> logits(rows * vocabulary);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 2654435761u % 1000) / 100.0f;
  const std::vector<int32_t> tokens(rows, 7);
  std::vector<double> logprobs(rows);
  for (auto _ : state) {
    LogSoftmaxGather(logits.data(), tokens.data(), rows, vocabulary, 1.0f, logprobs.data());
    benchmark::DoNotOptimize(logprobs.data());
  }
  state.SetItemsProcessed(state.iterations() * rows * vocabulary);
}
BENCHMARK(BM_LogSoftmaxGather)->Arg(1)->Arg(32);

}  // namespace
}  // namespace troupe::kernels
