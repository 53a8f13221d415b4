// SPDX-License-Identifier: Apache-2.0
// Threads inside one operation: OpenMP's team, which LibTorch's and the BLAS's own loops use too.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe {

// For what the calling thread computes from now on: loops of IntraOpParallel, matrix products, LibTorch's operators.
// >= 1. The thread pool is the process's own and is kept, so a role sets this once, to its CPUs.
void SetIntraOpThreads(int threads);

// Runs a kernel's tasks on the team of the calling thread, each task on whichever thread is free. `threads` as set
// above.
kernels::Parallel IntraOpParallel(int threads);

// body(begin, end) over [0, count), cut into at most one piece a thread, none smaller than `grain` (what is worth
// waking a thread for). Pieces write disjoint memory; which piece an index falls into may not change its result.
void IntraOpFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace troupe
