// SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding, in the half-split form of Llama in Transformers. Source: Su et al. 2021.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

struct RopeShape {
  int64_t rows = 0;
  int64_t row_stride = 0;  // floats between rows of x
  int64_t heads = 0;       // rotated, from the start of each row
  int64_t head_dim = 0;    // even
};

// Rotates each head in place: with h = head_dim / 2, for i < h and position p of the row
//   x[i]     = x[i] cos[p][i] - x[i + h] sin[p][i]
//   x[i + h] = x[i + h] cos[p][i] + x[i] sin[p][i]
// x: [rows, row_stride]; positions: [rows]; cos, sin: [positions, head_dim / 2].
void Rope(float* x, const int64_t* positions, const float* cos, const float* sin, const RopeShape& shape,
          const Parallel& parallel = {});

void RopeReference(float* x, const int64_t* positions, const float* cos, const float* sin, const RopeShape& shape);

}  // namespace troupe::kernels
