// SPDX-License-Identifier: Apache-2.0
// Matrix products of linear layers on raw row-major float32, through LibTorch's BLAS and its threads.
#pragma once

#include <cstdint>

namespace troupe::packed {

// y = x w^T (+ bias). x: [rows, in], w: [out, in], bias: [out] or null, y: [rows, out].
void Linear(const float* x, const float* w, const float* bias, float* y, int64_t rows, int64_t in, int64_t out);

// dx = dy w (+ dx if accumulate). dy: [rows, out], dx: [rows, in].
void LinearGradInput(const float* dy, const float* w, float* dx, int64_t rows, int64_t in, int64_t out,
                     bool accumulate);

// dw = dy^T x (+ dw if accumulate); dbias, unless null, likewise the column sums of dy.
void LinearGradWeight(const float* dy, const float* x, float* dw, float* dbias, int64_t rows, int64_t in, int64_t out,
                      bool accumulate);

}  // namespace troupe::packed
