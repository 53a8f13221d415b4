// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include "kernels/silu_mul/silu_mul.h"

namespace troupe::kernels {

void SiluMulReference(const float* gate_up, float* out, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
    for (int64_t i = 0; i < width; ++i) out[row * width + i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  }
}

}  // namespace troupe::kernels
