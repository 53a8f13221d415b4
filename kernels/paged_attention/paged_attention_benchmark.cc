// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/paged_attention/paged_attention.h"

namespace troupe::kernels {
namespace {

constexpr AttentionShape kShape{.pages = {.kv_heads = 3, .head_dim = 64, .page_tokens = 16},
                                .heads = 9,
                                .query_stride = 576,
                                .out_stride = 576,
                                .scale = 0.125f};

// range(0): query rows, range(1): the position of the first.
void BM_PagedAttention(benchmark::State& state) {
  const int64_t rows = state.range(0), position = state.range(1);
  const int64_t pages = (rows + position + 15) / 16;
  std::vector<float> keys(pages * kShape.pages.page_floats(), 0.1f), values = keys, q(rows * 576, 0.1f),
                                                                     out(rows * 576);
  std::vector<int32_t> table(pages);
  for (int64_t i = 0; i < pages; ++i) table[i] = static_cast<int32_t>(i);
  const SequenceRows sequence{table.data(), 0, rows, position};
  for (auto _ : state) {
    PagedAttention(q.data(), keys.data(), values.data(), &sequence, 1, kShape, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  const double pairs = static_cast<double>(rows) * position + rows * (rows + 1) / 2.0;
  state.counters["GFLOP/s"] = benchmark::Counter(pairs * 9 * 64 * 4 * static_cast<double>(state.iterations()) * 1e-9,
                                                 benchmark::Counter::kIsRate);
}
BENCHMARK(BM_PagedAttention)->Args({1, 64})->Args({1, 1024})->Args({32, 0})->Args({512, 0})->Args({512, 1536});

}  // namespace
}  // namespace troupe::kernels
