// SPDX-License-Identifier: Apache-2.0
//
// The random number of a token: a function of who the token is, never of what else runs.

#pragma once

#include <cstdint>

namespace troupe::rollout {

// Which token of which response. Two tokens that differ in any field get independent numbers.
struct TokenId {
  uint64_t seed = 0;
  uint64_t prompt_id = 0;
  uint64_t epoch = 0;
  int32_t sample_index = 0;
  int64_t position = 0;  // in the response, counted from its first token
};

// Uniform on [0, 1), a multiple of 2^-53.
// Philox 4x64 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): the key is (seed,
// prompt_id), the counter (epoch, sample_index, position, 0), so that nothing is hashed together and nothing can
// collide.
double UniformOf(const TokenId& token);

namespace internal {

struct PhiloxBlock {
  uint64_t words[4];
};

PhiloxBlock Philox4x64(PhiloxBlock counter, uint64_t key0, uint64_t key1);

}  // namespace internal
}  // namespace troupe::rollout
