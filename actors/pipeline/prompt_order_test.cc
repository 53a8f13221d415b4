// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/prompt_order.h"

#include <catch2/catch.hpp>
#include <set>

namespace troupe {

TEST_CASE("PromptOrder: each epoch holds every prompt once, in an order of its own", "[pipeline]") {
  std::vector<uint64_t> prompts = {3, 5, 8, 13, 21, 34, 55, 89};
  PromptOrder order(prompts, true, 1);
  std::set<std::vector<uint64_t>> epochs;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 8; ++i) {
      PromptOrder::Place place = order.At(epoch * 8 + i);
      CHECK(place.epoch == epoch);
      ids.push_back(place.prompt_id);
    }
    epochs.insert(ids);
    CHECK(std::set<uint64_t>(ids.begin(), ids.end()) == std::set<uint64_t>(prompts.begin(), prompts.end()));
  }
  CHECK(epochs.size() == 5);
}

TEST_CASE("PromptOrder: a place depends on the sequence and seed alone, not on what was asked before", "[pipeline]") {
  std::vector<uint64_t> prompts(100);
  for (uint64_t i = 0; i < 100; ++i) prompts[i] = i;
  PromptOrder forward(prompts, true, 7), other(prompts, true, 8);
  std::vector<PromptOrder::Place> places;
  for (uint64_t s = 0; s < 300; ++s) places.push_back(forward.At(s));
  PromptOrder backward(prompts, true, 7);
  for (uint64_t s = 300; s-- > 0;) CHECK(backward.At(s) == places[s]);
  int same = 0;
  for (uint64_t s = 0; s < 100; ++s) same += other.At(s) == places[s] ? 1 : 0;
  CHECK(same < 20);
  PromptOrder plain(prompts, false, 7);
  CHECK(plain.At(142) == PromptOrder::Place{1, 42});
}

}  // namespace troupe
