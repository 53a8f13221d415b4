// SPDX-License-Identifier: Apache-2.0
#include "actors/reference/intra_op_threads.h"

#include <ATen/Parallel.h>

namespace troupe {

void SetIntraOpThreads(int threads) {
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
}

}  // namespace troupe
