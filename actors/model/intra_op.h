// SPDX-License-Identifier: Apache-2.0
// Threads inside one operation: OpenMP's team, which LibTorch's and the BLAS's own loops use too.
#pragma once

#include "kernels/parallel.h"

namespace troupe {

// For what the calling thread computes from now on: loops of IntraOpParallel, matrix products, LibTorch's operators.
// >= 1. The thread pool is the process's own and is kept, so a role sets this once, to its CPUs.
void SetIntraOpThreads(int threads);

// Runs a kernel's tasks on the team of the calling thread, each task on whichever thread is free. `threads` as set
// above.
kernels::Parallel IntraOpParallel(int threads);

}  // namespace troupe
