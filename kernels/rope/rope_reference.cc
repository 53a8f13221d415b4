// SPDX-License-Identifier: Apache-2.0

#include "kernels/rope/rope.h"

namespace troupe::kernels {

void RopeReference(float* x, const int64_t* positions, const float* cos, const float* sin, const RopeShape& shape) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* cos_row = cos + positions[row] * half;
    const float* sin_row = sin + positions[row] * half;
    for (int64_t head = 0; head < shape.heads; ++head) {
      float* low = x + row * shape.row_stride + head * shape.head_dim;
      float* high = low + half;
      for (int64_t i = 0; i < half; ++i) {
        const float a = low[i];
        const float b = high[i];
        low[i] = a * cos_row[i] - b * sin_row[i];
        high[i] = b * cos_row[i] + a * sin_row[i];
      }
    }
  }
}

}  // namespace troupe::kernels
