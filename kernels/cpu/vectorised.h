// SPDX-License-Identifier: Apache-2.0
//
// Attributes that make the compiler turn a plain loop into vector code for several instruction sets at once.

#pragma once

// A function so marked is compiled for each level and the best one that the processor has is chosen at start. Levels,
// not processor names: those match that maker's processor alone, and every other one would run the slowest version.
#define TROUPE_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

// What such a function calls has to be inlined into it, or it runs without the instruction set.
#define TROUPE_INLINE inline __attribute__((always_inline))
