// SPDX-License-Identifier: Apache-2.0

#include "kernels/rms_norm/rms_norm.h"

#include <cmath>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {
namespace {

std::vector<float> Normal(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

void CheckClose(const std::vector<float>& got, const std::vector<float>& expected) {
  for (size_t i = 0; i < got.size(); ++i)
    REQUIRE(std::abs(got[i] - expected[i]) <= 1e-6f * (1 + std::abs(expected[i])));
}

}  // namespace

TEST_CASE("RmsNorm: equals the reference at any width", "[rms_norm]") {
  for (int64_t width : {1, 7, 8, 32, 65, 576}) {
    const RmsNormShape shape{.rows = 5, .width = width, .eps = 1e-5f};
    const std::vector<float> x = Normal(5 * width, 1), weight = Normal(width, 2);
    std::vector<float> y(x.size()), expected(x.size());
    RmsNorm(x.data(), weight.data(), y.data(), shape);
    RmsNormReference(x.data(), weight.data(), expected.data(), shape);
    CheckClose(y, expected);
  }
}

TEST_CASE("RmsNorm: adds to the residual first", "[rms_norm]") {
  for (int64_t width : {7, 64}) {
    const RmsNormShape shape{.rows = 3, .width = width};
    std::vector<float> x = Normal(3 * width, 1);
    const std::vector<float> weight = Normal(width, 2);
    std::vector<float> residual = Normal(3 * width, 3), expected_residual = residual, expected(x.size());
    AddRmsNormReference(x.data(), weight.data(), expected_residual.data(), expected.data(), shape);
    AddRmsNorm(x.data(), weight.data(), residual.data(), x.data(), shape);
    CHECK(residual == expected_residual);
    CheckClose(x, expected);
  }
}

TEST_CASE("RmsNorm: a row of zeros stays zero", "[rms_norm]") {
  const std::vector<float> x(16, 0.0f), weight(16, 2.0f);
  std::vector<float> y(16, 1.0f);
  RmsNorm(x.data(), weight.data(), y.data(), {.rows = 1, .width = 16});
  CHECK(y == x);
}

}  // namespace troupe::kernels
