// SPDX-License-Identifier: Apache-2.0
//
// Penalties for tokens that were there already: repetition, frequency and presence.

#pragma once

#include <cstdint>

namespace troupe::kernels {

struct Penalties {
  float repetition = 1.0f;  // > 0; above 1 makes a token that occurred less likely. Source: Keskar et al. 2019 (CTRL).
  float frequency = 0;      // subtracted once for each time it occurred
  float presence = 0;       // subtracted once if it occurred at all
};

// Changes the logits of the tokens in `history`: z = z > 0 ? z / repetition : z * repetition, then
// z -= count * frequency + presence. Before temperature and cuts. logits: [vocabulary]; history: [length], ids in
// [0, vocabulary), in any order; others are passed over.
void ApplyPenalties(const int32_t* history, int64_t length, const Penalties& penalties, float* logits,
                    int64_t vocabulary);

}  // namespace troupe::kernels
