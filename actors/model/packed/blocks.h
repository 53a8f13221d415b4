// SPDX-License-Identifier: Apache-2.0
// The parts of a Llama layer that are not matrix products, forward and backward, on raw row-major float32. Rows are
// tokens. Threads split rows or columns so that each output has one writer: results do not depend on their number.
#pragma once

#include <cstdint>

namespace troupe::packed {

// y = x * rsqrt(mean(x^2) + eps) * weight. x, y: [rows, width].
void RmsNorm(const float* x, const float* weight, float eps, float* y, int64_t rows, int64_t width);

// dx += gradient by x of RmsNorm, given dy; dweight likewise (+ dweight if accumulate).
void RmsNormBackward(const float* dy, const float* x, const float* weight, float eps, float* dx, float* dweight,
                     int64_t rows, int64_t width, bool accumulate);

// Rotates the first `heads` heads of each row in place; `inverse` rotates back, which is also the gradient (up to the
// scaling that cosines and sines carry, which both apply). x: [rows, stride], cos, sin: [rows, head_dim / 2].
void Rope(float* x, int64_t stride, const float* cosines, const float* sines, int64_t rows, int64_t heads,
          int64_t head_dim, bool inverse);

// y = silu(gate) * up. gate_up: [rows, 2 width], gate first; y: [rows, width].
void SiluMul(const float* gate_up, float* y, int64_t rows, int64_t width);

// Overwrites gate_up with its gradient, given dy.
void SiluMulBackward(const float* dy, float* gate_up, int64_t rows, int64_t width);

// y += x
void AddInPlace(const float* x, float* y, int64_t count);

}  // namespace troupe::packed
