// SPDX-License-Identifier: Apache-2.0

#include "actors/rollout/engine/token_random.h"

#include <cmath>
#include <functional>
#include <vector>

#include "catch2/catch.hpp"

namespace troupe::rollout {
namespace {

constexpr int kDraws = 200000;
constexpr int kBins = 100;

// Draws along one field; returns Pearson's chi-squared over kBins and the lag-1 correlation.
struct Statistics {
  double chi_squared = 0;
  double correlation = 0;
};

Statistics Draw(const std::function<TokenId(int)>& token) {
  std::vector<double> bins(kBins, 0.0);
  double sum_products = 0;
  double previous = UniformOf(token(0));
  for (int i = 1; i <= kDraws; ++i) {
    const double u = UniformOf(token(i));
    REQUIRE(u >= 0.0);
    REQUIRE(u < 1.0);
    bins[static_cast<int>(u * kBins)] += 1;
    sum_products += (u - 0.5) * (previous - 0.5);
    previous = u;
  }
  Statistics statistics;
  const double expected = static_cast<double>(kDraws) / kBins;
  for (double count : bins) statistics.chi_squared += (count - expected) * (count - expected) / expected;
  statistics.correlation = 12.0 * sum_products / kDraws;
  return statistics;
}

}  // namespace

TEST_CASE("TokenRandom: Philox gives the published known answers", "[token_random]") {
  // Random123's kat_vectors, philox4x64 10.
  const internal::PhiloxBlock zeros = internal::Philox4x64({{0, 0, 0, 0}}, 0, 0);
  CHECK(zeros.words[0] == 0x16554d9eca36314cULL);
  CHECK(zeros.words[1] == 0xdb20fe9d672d0fdcULL);
  CHECK(zeros.words[2] == 0xd7e772cee186176bULL);
  CHECK(zeros.words[3] == 0x7e68b68aec7ba23bULL);
  const uint64_t f = ~uint64_t{0};
  const internal::PhiloxBlock ones = internal::Philox4x64({{f, f, f, f}}, f, f);
  CHECK(ones.words[0] == 0x87b092c3013fe90bULL);
  CHECK(ones.words[1] == 0x438c3c67be8d0224ULL);
  CHECK(ones.words[2] == 0x9cc7d7c69cd777b6ULL);
  CHECK(ones.words[3] == 0xa09caebf594f0ba0ULL);
}

TEST_CASE("TokenRandom: numbers are uniform and uncorrelated along every field", "[token_random]") {
  const std::vector<std::function<TokenId(int)>> fields = {
      [](int i) { return TokenId{.seed = static_cast<uint64_t>(i)}; },
      [](int i) { return TokenId{.seed = 1, .prompt_id = static_cast<uint64_t>(i)}; },
      [](int i) { return TokenId{.seed = 1, .epoch = static_cast<uint64_t>(i)}; },
      [](int i) { return TokenId{.seed = 1, .sample_index = i}; },
      [](int i) { return TokenId{.seed = 1, .position = i}; },
  };
  for (const auto& field : fields) {
    const Statistics statistics = Draw(field);
    // 99 degrees of freedom: 5 deviations around the mean; the correlation's deviation is 1 / sqrt(draws).
    CHECK(std::abs(statistics.chi_squared - 99.0) < 5.0 * std::sqrt(2.0 * 99.0));
    CHECK(std::abs(statistics.correlation) < 5.0 / std::sqrt(kDraws));
  }
}

TEST_CASE("TokenRandom: every field matters", "[token_random]") {
  const TokenId token{.seed = 1, .prompt_id = 2, .epoch = 3, .sample_index = 4, .position = 5};
  CHECK(UniformOf(token) == UniformOf(token));
  for (int field = 0; field < 5; ++field) {
    TokenId other = token;
    if (field == 0) ++other.seed;
    if (field == 1) ++other.prompt_id;
    if (field == 2) ++other.epoch;
    if (field == 3) ++other.sample_index;
    if (field == 4) ++other.position;
    CHECK(UniformOf(other) != UniformOf(token));
  }
}

}  // namespace troupe::rollout
