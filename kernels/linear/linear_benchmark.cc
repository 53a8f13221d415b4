// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/linear/linear.h"

namespace troupe::kernels {
namespace {

// range(0): rows. The weights are those of many layers, so that they come from memory as in a model.
// Limits: bytes/s of memory for few rows, two multiply-adds of 8 floats a cycle for many.
void BM_Linear(benchmark::State& state) {
  const LinearShape shape{.rows = state.range(0), .in = 576, .out = 3072};
  constexpr int64_t kLayers = 20;
  const std::vector<float> w(kLayers * shape.in * shape.out, 0.01f), x(shape.rows * shape.in, 0.5f);
  std::vector<float> y(shape.rows * shape.out);
  int64_t layer = 0;
  for (auto _ : state) {
    Linear(x.data(), w.data() + layer * shape.in * shape.out, nullptr, y.data(), shape);
    layer = (layer + 1) % kLayers;
    benchmark::DoNotOptimize(y.data());
  }
  const double products =
      static_cast<double>(shape.rows * shape.in * shape.out) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * products, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * shape.in * shape.out * static_cast<int64_t>(sizeof(float)));
}
BENCHMARK(BM_Linear)->Arg(1)->Arg(8)->Arg(32)->Arg(128)->Arg(512);

}  // namespace
}  // namespace troupe::kernels
