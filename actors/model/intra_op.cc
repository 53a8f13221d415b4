// SPDX-License-Identifier: Apache-2.0
// Compiled with -fopenmp: without it the loop would silently run on one thread.
#include "actors/model/intra_op.h"

#include <omp.h>

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

}  // namespace troupe
