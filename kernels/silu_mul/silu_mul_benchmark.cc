// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/silu_mul/silu_mul.h"

namespace troupe::kernels {
namespace {

void BM_SiluMul(benchmark::State& state) {
  const int64_t rows = state.range(0), width = 1536;
  std::vector<float> gate_up(rows * 2 * width, 0.5f), out(rows * width);
  for (auto _ : state) {
    SiluMul(gate_up.data(), out.data(), rows, width);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * rows * width);
}
BENCHMARK(BM_SiluMul)->Arg(1)->Arg(32)->Arg(512);

}  // namespace
}  // namespace troupe::kernels
