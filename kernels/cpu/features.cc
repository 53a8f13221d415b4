// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/features.h"

namespace troupe::kernels {

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

}  // namespace troupe::kernels
