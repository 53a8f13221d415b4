// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include "kernels/rms_norm/rms_norm.h"

namespace troupe::kernels {

void RmsNormReference(const float* x, const float* weight, float* y, const RmsNormShape& shape) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* x_row = x + row * shape.width;
    float* y_row = y + row * shape.width;
    double sum = 0;
    for (int64_t i = 0; i < shape.width; ++i) sum += static_cast<double>(x_row[i]) * x_row[i];
    const float scale = 1.0f / std::sqrt(static_cast<float>(sum / static_cast<double>(shape.width)) + shape.eps);
    for (int64_t i = 0; i < shape.width; ++i) y_row[i] = weight[i] * (x_row[i] * scale);
  }
}

void AddRmsNormReference(const float* x, const float* weight, float* residual, float* y, const RmsNormShape& shape) {
  for (int64_t i = 0; i < shape.rows * shape.width; ++i) residual[i] += x[i];
  RmsNormReference(residual, weight, y, shape);
}

}  // namespace troupe::kernels
