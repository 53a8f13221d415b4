// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/rms_norm/rms_norm.h"

namespace troupe::kernels {
namespace {

// Bytes: the row read and written; the limit is the cache's bandwidth.
void BM_AddRmsNorm(benchmark::State& state) {
  const RmsNormShape shape{.rows = state.range(0), .width = 576};
  std::vector<float> x(shape.rows * shape.width, 0.5f), residual = x, y = x, weight(shape.width, 1.0f);
  for (auto _ : state) {
    AddRmsNorm(x.data(), weight.data(), residual.data(), y.data(), shape);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * shape.rows * shape.width * 4 * sizeof(float));
}
BENCHMARK(BM_AddRmsNorm)->Arg(1)->Arg(32)->Arg(512);

}  // namespace
}  // namespace troupe::kernels
