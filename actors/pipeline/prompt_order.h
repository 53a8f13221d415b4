// SPDX-License-Identifier: Apache-2.0
// PromptOrder: the endless sequence of training prompts: each epoch holds every prompt once, in a fresh seeded order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

// A pure function of (prompts, shuffle, seed): the cursor of a run is one number, the sequence. Not thread-safe (it
// keeps the permutation of the epoch that was asked for last).
class PromptOrder {
 public:
  struct Place {
    uint64_t epoch = 0;
    uint64_t prompt_id = 0;
    std::string GroupId() const { return std::to_string(epoch) + "-" + std::to_string(prompt_id); }
    friend bool operator==(const Place&, const Place&) = default;
  };

  // `prompt_ids` must not be empty; without `shuffle` each epoch keeps their order.
  PromptOrder(std::vector<uint64_t> prompt_ids, bool shuffle, int64_t seed);

  Place At(uint64_t sequence) const;
  size_t prompts() const { return prompt_ids_.size(); }

 private:
  std::vector<uint64_t> prompt_ids_;
  bool shuffle_;
  uint64_t seed_;
  mutable uint64_t epoch_ = UINT64_MAX;
  mutable std::vector<uint64_t> order_;
};

}  // namespace troupe
