// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/token_random.h"

namespace troupe::rollout {
namespace internal {
namespace {

// Constants of the paper.
constexpr uint64_t kMultiplier0 = 0xD2E7470EE14C6C93;
constexpr uint64_t kMultiplier1 = 0xCA5A826395121157;
constexpr uint64_t kWeyl0 = 0x9E3779B97F4A7C15;
constexpr uint64_t kWeyl1 = 0xBB67AE8584CAA73B;
constexpr int kRounds = 10;

struct Product {
  uint64_t high;
  uint64_t low;
};

__extension__ using Wide = unsigned __int128;

Product Multiply(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
}

}  // namespace

PhiloxBlock Philox4x64(PhiloxBlock counter, uint64_t key0, uint64_t key1) {
  uint64_t(&c)[4] = counter.words;
  for (int round = 0; round < kRounds; ++round) {
    const Product p0 = Multiply(kMultiplier0, c[0]);
    const Product p1 = Multiply(kMultiplier1, c[2]);
    counter = {{p1.high ^ c[1] ^ key0, p1.low, p0.high ^ c[3] ^ key1, p0.low}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

}  // namespace internal

double UniformOf(const TokenId& token) {
  const internal::PhiloxBlock block = internal::Philox4x64(
      {{token.epoch, static_cast<uint64_t>(token.sample_index), static_cast<uint64_t>(token.position), 0}}, token.seed,
      token.prompt_id);
  return static_cast<double>(block.words[0] >> 11) * 0x1.0p-53;
}

}  // namespace troupe::rollout
