// SPDX-License-Identifier: Apache-2.0

#include "kernels/silu_mul/silu_mul.h"

#include <cmath>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {

TEST_CASE("SiluMul: equals the reference, also far out", "[silu_mul]") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t width : {1, 8, 13, 1536}) {
    std::vector<float> gate_up(3 * 2 * width);
    for (float& value : gate_up) value = 5 * normal(random);
    gate_up[0] = -200.0f;
    gate_up[2 * width] = 200.0f;
    std::vector<float> out(3 * width), expected(3 * width);
    SiluMul(gate_up.data(), out.data(), 3, width);
    SiluMulReference(gate_up.data(), expected.data(), 3, width);
    for (size_t i = 0; i < out.size(); ++i)
      REQUIRE(std::abs(out[i] - expected[i]) <= 1e-6f * (1 + std::abs(expected[i])));
  }
}

}  // namespace troupe::kernels
