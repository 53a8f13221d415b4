// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of a linear layer on weights as checkpoints store them: no packing, no copy.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
};

// y = x w^T + bias. x: [rows, in], w: [out, in], bias: [out] or null, y: [rows, out]; float32, row-major.
//
// Each sum runs over `in` in one fixed order, so that a row's result is the same bits whatever else is in the batch and
// however many threads there are.
void Linear(const float* x, const float* w, const float* bias, float* y, const LinearShape& shape,
            const Parallel& parallel = {});

void LinearReference(const float* x, const float* w, const float* bias, float* y, const LinearShape& shape);

}  // namespace troupe::kernels
