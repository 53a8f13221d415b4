// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/rope/rope.h"

namespace troupe::kernels {
namespace {

void BM_Rope(benchmark::State& state) {
  const RopeShape shape{.rows = state.range(0), .row_stride = 960, .heads = 12, .head_dim = 64};
  std::vector<float> x(shape.rows * shape.row_stride, 0.5f), cos(64 * 32, 0.8f), sin(64 * 32, 0.6f);
  std::vector<int64_t> positions(shape.rows);
  for (int64_t i = 0; i < shape.rows; ++i) positions[i] = i % 64;
  for (auto _ : state) {
    Rope(x.data(), positions.data(), cos.data(), sin.data(), shape);
    benchmark::DoNotOptimize(x.data());
  }
  state.SetBytesProcessed(state.iterations() * shape.rows * shape.heads * shape.head_dim * 2 * sizeof(float));
}
BENCHMARK(BM_Rope)->Arg(1)->Arg(32)->Arg(512);

}  // namespace
}  // namespace troupe::kernels
