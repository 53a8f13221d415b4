// SPDX-License-Identifier: Apache-2.0
// The matrix product of a linear layer in inference.
#pragma once

#include <cstdint>

namespace troupe {

// y = x w^T + bias. x: [rows, in], w: [out, in], bias: [out] or null, y: [rows, out]; float32, row-major.
void Linear(const float* x, const float* w, const float* bias, float* y, int64_t rows, int64_t in, int64_t out);

}  // namespace troupe
