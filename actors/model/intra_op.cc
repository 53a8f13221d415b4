// SPDX-License-Identifier: Apache-2.0
// Compiled with -fopenmp: without it the loop would silently run on one thread.
#include "actors/model/intra_op.h"

#include <omp.h>

#include <algorithm>

#ifndef _OPENMP
#error "needs -fopenmp"
#endif

// Of the BLAS inside libtorch_cpu: the number of threads for products called from this thread.
extern "C" int MKL_Set_Num_Threads_Local(int threads);

namespace troupe {

void SetIntraOpThreads(int threads) {
  // No num_threads clause anywhere: GNU OpenMP takes its pool down and up again when the size of a team changes.
  omp_set_num_threads(threads);
  MKL_Set_Num_Threads_Local(threads);
}

kernels::Parallel IntraOpParallel(int threads) {
  const auto run = [](void*, int64_t tasks, kernels::Parallel::Task task, void* state) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; ++i) task(state, i);
  };
  return kernels::Parallel(threads, run, nullptr);
}

void IntraOpFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  const int64_t worth = (count + grain - 1) / std::max<int64_t>(1, grain);
  const int64_t pieces = std::min<int64_t>(omp_get_max_threads(), worth);
  if (pieces <= 1 || omp_in_parallel()) return body(0, count);
#pragma omp parallel for schedule(static, 1)
  for (int64_t i = 0; i < pieces; ++i) body(count * i / pieces, count * (i + 1) / pieces);
}

}  // namespace troupe
