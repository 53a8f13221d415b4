// SPDX-License-Identifier: Apache-2.0
#include "actors/pipeline/validation_scores.h"

#include "catch2/catch.hpp"

namespace troupe {

TEST_CASE("ValidationMetrics: mean, best and majority of N over prompts", "[validation]") {
  auto metrics = ValidationMetrics({{"a", {{0, "3"}, {1, "7"}, {1, "7"}, {0, "4"}}},
                                    {"b", {{0, "1"}, {1, "2"}, {0, "1"}, {1, "2"}}},
                                    {"b-greedy", {{1, ""}}}},
                                   4);
  CHECK(metrics.at("val-core/val/reward/mean@4") == 0.5);
  CHECK(metrics.at("val-core/val/reward/best@4") == 1);
  CHECK(metrics.at("val-core/val/reward/maj@4") == 0.5);  // 7 is right; of 1 and 2 the first was wrong.
  CHECK(metrics.at("val-core/val/reward_greedy/mean@1") == 1);
}

TEST_CASE("ValidationMetrics: no majority where some prompt has no answer at all, and nothing of nothing",
          "[validation]") {
  auto metrics = ValidationMetrics({{"a", {{1, "7"}, {0, ""}, {0, ""}}}, {"b", {{0, ""}}}}, 3);
  CHECK_FALSE(metrics.contains("val-core/val/reward/maj@3"));
  CHECK(metrics.contains("val-core/val/reward/mean@3"));
  CHECK(ValidationMetrics({{"a", {{1, "7"}, {0, ""}, {0, ""}}}}, 3).at("val-core/val/reward/maj@3") == 1);
  CHECK(ValidationMetrics({}, 3).empty());
}

}  // namespace troupe
