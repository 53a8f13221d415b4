// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/islands.h"

#include <catch2/catch.hpp>

namespace troupe::device {
namespace {

TEST_CASE("Islands: pairs, chains and switches join devices; who has no link to another is alone", "[device]") {
  CHECK(Islands({}, {}).empty());
  CHECK(Islands({"a", "b"}, {}) == std::vector<int>{-1, -1});
  // b-d and a-e-c (a chain), f alone.
  CHECK(Islands({"a", "b", "c", "d", "e", "f"}, {{1, "d"}, {0, "e"}, {4, "c"}}) == std::vector<int>{0, 1, 0, 1, 0, -1});
  CHECK(Islands({"a", "b", "c"}, {{0, "switch"}, {2, "switch"}}) == std::vector<int>{0, -1, 0});
}

TEST_CASE("Islands: a link to oneself, to a lone switch or of no device joins nothing", "[device]") {
  CHECK(Islands({"a", "b"}, {{0, "a"}, {1, "switch"}, {7, "a"}, {-1, "b"}}) == std::vector<int>{-1, -1});
}

}  // namespace
}  // namespace troupe::device
