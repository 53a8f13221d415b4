// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/prompt_order.h"

#include <random>
#include <utility>

#include "runtime/base/check.h"

namespace troupe {
namespace {

// SplitMix64 (Steele et al. 2014): spreads (seed, epoch) over the generator's state.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Uniform in [0, bound) by rejection. std::shuffle differs between standard libraries; this does not.
uint64_t Below(std::mt19937_64& random, uint64_t bound) {
  uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = random();
  while (value >= limit) value = random();
  return value % bound;
}

}  // namespace

PromptOrder::PromptOrder(std::vector<uint64_t> prompt_ids, bool shuffle, int64_t seed)
    : prompt_ids_(std::move(prompt_ids)), shuffle_(shuffle), seed_(static_cast<uint64_t>(seed)) {
  TROUPE_CHECK(!prompt_ids_.empty(), "an order of no prompts");
}

PromptOrder::Place PromptOrder::At(uint64_t sequence) const {
  uint64_t epoch = sequence / prompt_ids_.size();
  if (epoch != epoch_) {
    order_ = prompt_ids_;
    if (shuffle_) {
      std::mt19937_64 random(Mix(Mix(seed_) + epoch));
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[Below(random, i)]);
    }
    epoch_ = epoch;
  }
  return {epoch, order_[sequence % prompt_ids_.size()]};
}

}  // namespace troupe
