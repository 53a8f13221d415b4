// SPDX-License-Identifier: Apache-2.0

#include "kernels/linear/linear.h"

namespace troupe::kernels {

void LinearReference(const float* x, const float* w, const float* bias, float* y, const LinearShape& shape) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t o = 0; o < shape.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < shape.in; ++i) sum += static_cast<double>(x[row * shape.in + i]) * w[o * shape.in + i];
      y[row * shape.out + o] = static_cast<float>(sum) + (bias == nullptr ? 0.0f : bias[o]);
    }
  }
}

}  // namespace troupe::kernels
