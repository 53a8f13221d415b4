// SPDX-License-Identifier: Apache-2.0

#include "kernels/log_softmax/log_softmax.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Logits(int64_t size, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

}  // namespace

TEST_CASE("LogSoftmax: equals the reference at any size and temperature", "[log_softmax]") {
  for (int64_t vocabulary : {1, 7, 32, 511, 513, 49152}) {
    for (float temperature : {1.0f, 0.3f, 1.7f}) {
      std::vector<float> logits = Logits(2 * vocabulary, 5, 1);
      logits[vocabulary] = -kInfinity;
      if (vocabulary == 1) logits[vocabulary] = 0;
      const std::vector<int32_t> tokens = {static_cast<int32_t>(vocabulary - 1), static_cast<int32_t>(vocabulary / 2)};
      double got[2], expected[2];
      LogSoftmaxGather(logits.data(), tokens.data(), 2, vocabulary, temperature, got);
      LogSoftmaxGatherReference(logits.data(), tokens.data(), 2, vocabulary, temperature, expected);
      // The exponent is rounded to float32: up to 2^-24 of its size (some tens), weighed by its share of the sum.
      for (int i = 0; i < 2; ++i) CHECK(std::abs(got[i] - expected[i]) < 2e-6);
    }
  }
}

TEST_CASE("LogSoftmax: the parts of the sum give the sum", "[log_softmax]") {
  const std::vector<float> logits = Logits(1500, 3, 2);
  std::vector<double> blocks(SoftmaxBlocks(1500));
  const SoftmaxStats stats = SoftmaxStatsOf(logits.data(), 1500, 1.0f, blocks.data());
  CHECK(std::accumulate(blocks.begin(), blocks.end(), 0.0) == stats.sum_exp);
}

TEST_CASE("LogSoftmax: the first of equal maxima is told, and what is not finite", "[log_softmax]") {
  std::vector<float> logits(100, 0.0f);
  logits[37] = logits[90] = 2.0f;
  CHECK(SoftmaxStatsOf(logits.data(), 100, 1.0f).argmax == 37);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    for (int64_t place : {0, 50, 99}) {
      std::vector<float> broken = logits;
      broken[place] = bad;
      CHECK_FALSE(SoftmaxStatsOf(broken.data(), 100, 1.0f).finite);
      CHECK_FALSE(SoftmaxStatsReference(broken.data(), 100, 1.0f).finite);
    }
  }
  const std::vector<float> nothing(100, -kInfinity);
  CHECK_FALSE(SoftmaxStatsOf(nothing.data(), 100, 1.0f).finite);
}

}  // namespace troupe::kernels
