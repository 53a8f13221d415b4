// SPDX-License-Identifier: Apache-2.0

#include "kernels/sampling/sampling.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "catch2/catch.hpp"
#include "kernels/sampling/penalties.h"

namespace troupe::kernels {
namespace {

SampledToken Sample(const std::vector<float>& logits, const SamplingRow& parameters) {
  SampledToken token;
  SampleRows(logits.data(), 1, static_cast<int64_t>(logits.size()), &parameters, &token);
  return token;
}

}  // namespace

TEST_CASE("Sampling: equals the reference for any cut", "[sampling]") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  int64_t different = 0;
  for (int round = 0; round < 400; ++round) {
    const int64_t vocabulary = round % 4 == 0 ? 5000 : 1 + random() % 700;
    std::vector<float> logits(vocabulary);
    for (float& logit : logits) logit = round % 3 == 0 ? std::round(normal(random)) : normal(random);  // with ties
    SamplingRow parameters;
    parameters.temperature = round % 2 == 0 ? 1.0f : 0.5f + static_cast<float>(random() % 100) / 50;
    parameters.top_k = random() % 3 == 0 ? 0 : 1 + random() % vocabulary;
    parameters.top_p = random() % 3 == 0 ? 1.0 : static_cast<double>(random() % 1000) / 1000;
    parameters.min_p = random() % 3 != 0 ? 0 : static_cast<double>(random() % 1000) / 1000;
    parameters.uniform = static_cast<double>(random()) / 4294967296.0;
    parameters.greedy = round % 10 == 9;
    const SampledToken got = Sample(logits, parameters);
    const SampledToken expected = SampleRowReference(logits.data(), vocabulary, parameters);
    REQUIRE(got.finite);
    if (got.token != expected.token) {  // the sums are rounded otherwise: about one in 10^6
      ++different;
      continue;
    }
    REQUIRE(std::abs(got.logprob - expected.logprob) < 1e-6);
    REQUIRE(std::abs(got.filtered_logprob - expected.filtered_logprob) < 1e-6);
  }
  CHECK(different == 0);
}

TEST_CASE("Sampling: frequencies are the probabilities", "[sampling]") {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, -40.0f};
  double total = 0;
  for (float logit : logits) total += std::exp(logit / 0.8);
  constexpr int kDraws = 20000;
  std::vector<int> counts(5, 0);
  for (int i = 0; i < kDraws; ++i) ++counts[Sample(logits, {.temperature = 0.8f, .uniform = (i + 0.5) / kDraws}).token];
  for (int i = 0; i < 5; ++i) CHECK(std::abs(counts[i] - kDraws * std::exp(logits[i] / 0.8) / total) <= 1);
}

TEST_CASE("Sampling: ties go to the lower id", "[sampling]") {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 3.0f, 3.0f, 0.0f};
  CHECK(Sample(logits, {.greedy = true}).token == 1);
  for (double uniform : {0.0, 0.49, 0.51, 0.999}) {
    CHECK(Sample(logits, {.top_k = 2, .uniform = uniform}).token == (uniform < 0.5 ? 1 : 2));
  }
  CHECK(Sample(logits, {.top_p = 0.01, .uniform = 0.99}).token == 1);
  CHECK(Sample(logits, {.top_k = 2, .uniform = 0.99, .top_k_keeps_ties = true}).token == 4);
}

TEST_CASE("Sampling: min_p leaves what is likely enough beside the most likely, which always stays", "[sampling]") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  CHECK(Sample(logits, {.min_p = 0.49, .uniform = 0.99}).token == 2);
  CHECK(Sample(logits, {.min_p = 0.49, .uniform = 0}).token == 1);
  CHECK(Sample(logits, {.min_p = 0.51, .uniform = 0.99}).token == 1);
  CHECK(Sample(logits, {.min_p = 1, .uniform = 0.99}).token == 1);
}

TEST_CASE("Penalties: a token that occurred loses by its count, whatever its logit's sign", "[sampling]") {
  std::vector<float> logits = {4, -4, 1, 0};
  const std::vector<int32_t> history = {0, 1, 0, 3, 7, -1};
  kernels::ApplyPenalties(history.data(), 6, {.repetition = 2, .frequency = 0.5, .presence = 0.25}, logits.data(), 4);
  CHECK(logits == std::vector<float>{2 - 1.25f, -8 - 0.75f, 1, -0.75f});
}

TEST_CASE("Sampling: both log-probabilities are told, before and after the cut", "[sampling]") {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const SampledToken token = Sample(logits, {.top_k = 2, .uniform = 0.9});
  CHECK(token.token == 1);
  CHECK(token.logprob == Approx(std::log(0.3)).margin(1e-6));
  CHECK(token.filtered_logprob == Approx(std::log(0.3 / 0.8)).margin(1e-6));
}

TEST_CASE("Sampling: a row that is not finite is told and harms no other", "[sampling]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {0, nan, 1, 0, 2, 1};
  const SamplingRow parameters[2] = {{.greedy = true}, {.greedy = true}};
  SampledToken tokens[2];
  SampleRows(logits.data(), 2, 3, parameters, tokens);
  CHECK_FALSE(tokens[0].finite);
  CHECK(tokens[1].token == 1);
}

}  // namespace troupe::kernels
