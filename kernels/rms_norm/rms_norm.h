// SPDX-License-Identifier: Apache-2.0
//
// Root mean square normalisation. Source: Zhang and Sennrich 2019; the order of operations is that of Llama in
// Transformers.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

struct RmsNormShape {
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 1e-6f;
};

// y = weight * (x / sqrt(mean(x^2) + eps)), row by row. x, y: [rows, width]; weight: [width]. y may be x.
void RmsNorm(const float* x, const float* weight, float* y, const RmsNormShape& shape, const Parallel& parallel = {});

// residual += x, then y = RmsNorm(residual). y may be x.
void AddRmsNorm(const float* x, const float* weight, float* residual, float* y, const RmsNormShape& shape,
                const Parallel& parallel = {});

void RmsNormReference(const float* x, const float* weight, float* y, const RmsNormShape& shape);
void AddRmsNormReference(const float* x, const float* weight, float* residual, float* y, const RmsNormShape& shape);

}  // namespace troupe::kernels
