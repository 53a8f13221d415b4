// SPDX-License-Identifier: Apache-2.0
//
// The gate of a SwiGLU feed-forward layer. Source: Shazeer 2020.

#pragma once

#include <cstdint>

#include "kernels/parallel.h"

namespace troupe::kernels {

// out = gate / (1 + exp(-gate)) * up. gate_up: [rows, 2 * width], the gate first; out: [rows, width].
void SiluMul(const float* gate_up, float* out, int64_t rows, int64_t width, const Parallel& parallel = {});

void SiluMulReference(const float* gate_up, float* out, int64_t rows, int64_t width);

}  // namespace troupe::kernels
