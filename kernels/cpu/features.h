// SPDX-License-Identifier: Apache-2.0
//
// What this processor can do, asked once.

#pragma once

namespace troupe::kernels {

// AVX2 and FMA: what the fast CPU versions need. Without them the references run.
bool HasAvx2();

}  // namespace troupe::kernels

// Put before a function that uses AVX2 intrinsics, and called only where HasAvx2().
#define TROUPE_AVX2 __attribute__((target("avx2,fma")))
