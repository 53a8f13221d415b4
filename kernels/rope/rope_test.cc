// SPDX-License-Identifier: Apache-2.0

#include "kernels/rope/rope.h"

#include <cmath>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {

TEST_CASE("Rope: equals the reference and leaves the rest of the row alone", "[rope]") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t head_dim : {8, 16, 24, 64}) {
    const RopeShape shape{.rows = 3, .row_stride = 5 * head_dim, .heads = 4, .head_dim = head_dim};
    const std::vector<int64_t> positions = {0, 9, 4};
    std::vector<float> cos(10 * head_dim / 2), sin(cos.size()), x(3 * shape.row_stride);
    for (size_t i = 0; i < cos.size(); ++i) {
      const float angle = normal(random);
      cos[i] = std::cos(angle);
      sin[i] = std::sin(angle);
    }
    for (float& value : x) value = normal(random);
    std::vector<float> expected = x;
    const std::vector<float> before = x;
    Rope(x.data(), positions.data(), cos.data(), sin.data(), shape);
    RopeReference(expected.data(), positions.data(), cos.data(), sin.data(), shape);
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(x[i] - expected[i]) < 1e-6f);
    for (int64_t i = 4 * head_dim; i < 5 * head_dim; ++i) REQUIRE(x[i] == before[i]);
  }
}

TEST_CASE("Rope: a quarter turn moves the first half into the second", "[rope]") {
  std::vector<float> x = {1, 2, 0, 0};
  const int64_t position = 0;
  const float cos[] = {0, 0}, sin[] = {1, 1};
  Rope(x.data(), &position, cos, sin, {.rows = 1, .row_stride = 4, .heads = 1, .head_dim = 4});
  CHECK(x == std::vector<float>{0, 0, 1, 2});
}

}  // namespace troupe::kernels
