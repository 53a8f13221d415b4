// SPDX-License-Identifier: Apache-2.0
//
// The cuts against what Transformers' logits processors leave (tests/golden/sampling.json).

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "kernels/log_softmax/log_softmax.h"
#include "kernels/sampling/sampling.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden.h"

namespace troupe::kernels {
namespace {

using json = nlohmann::ordered_json;

void Set(const std::string& name, const json& value, SamplingRow& parameters) {
  if (name == "temperature") parameters.temperature = value.get<float>();
  if (name == "top_k") parameters.top_k = value.get<int64_t>();
  if (name == "top_p") parameters.top_p = value.get<double>();
}

// False if the case asks for a cut that is not here.
bool Read(const json& config, SamplingRow& parameters) {
  parameters.top_k_keeps_ties = true;
  if (config.contains("chain")) {
    for (const json& step : config.at("chain")) {
      const std::string name = step[0].get<std::string>();
      if (name != "temperature" && name != "top_k" && name != "top_p") return false;
      Set(name, step[1], parameters);
    }
    return true;
  }
  for (const auto& [name, value] : config.items()) Set(name, value, parameters);
  parameters.min_kept = config.value("min_tokens_to_keep", int64_t{1});
  return true;
}

// Compares one row with the golden log-probabilities; with `by_count` only how many survive and what they weigh
// together.
void CheckRow(const json& logits_json, const json& expected, const SamplingRow& parameters, bool by_count,
              bool float32_top_p) {
  std::vector<float> logits;
  for (const json& logit : logits_json) logits.push_back(static_cast<float>(GoldenNumber(logit)));
  const int64_t vocabulary = static_cast<int64_t>(logits.size());
  const SoftmaxStats stats = SoftmaxStatsOf(logits.data(), vocabulary, parameters.temperature);
  REQUIRE(stats.finite);
  double total = 0;
  std::map<int32_t, double> got;
  for (const Survivor& survivor : Filter(logits.data(), vocabulary, parameters, stats.max, stats.sum_exp, total)) {
    // Where Transformers cuts in float32 it loses what rounds to nothing there.
    const bool lost = float32_top_p && survivor.term / total < 0x1p-150;
    if (survivor.term > 0 && !lost) got[survivor.token] = survivor.term;
  }
  int64_t survivors = 0;
  for (int32_t token = 0; token < vocabulary; ++token) {
    const double logprob = GoldenNumber(expected[token]);
    survivors += std::isfinite(logprob);
    if (by_count) continue;
    CAPTURE(token);
    REQUIRE(got.contains(token) == std::isfinite(logprob));
    if (got.contains(token))
      REQUIRE(std::abs(std::log(got[token] / total) - logprob) <= 1e-5 * (1 + std::abs(logprob)));
  }
  REQUIRE(static_cast<int64_t>(got.size()) == survivors);
}

}  // namespace

TEST_CASE("Sampling: temperature, top-k and top-p leave what Transformers leaves", "[sampling][golden]") {
  int64_t checked = 0;
  for (const GoldenCase& golden : GoldenCases("sampling.json")) {
    const std::string& function = golden.function;
    if (function != "sampling/temperature" && function != "sampling/top_k" && function != "sampling/top_p" &&
        function != "sampling/chain") {
      continue;
    }
    const json& config = golden.config;
    SamplingRow parameters;
    if (!Read(config, parameters)) continue;
    CAPTURE(golden.name);
    const json& expected = golden.outputs.at("logprobs");
    for (size_t row = 0; row < expected.size(); ++row) {
      CheckRow(golden.inputs.at("logits")[row], expected[row], parameters, config.contains("ties"),
               function == "sampling/top_p" && golden.name.ends_with("float32"));
    }
    ++checked;
  }
  CHECK(checked == 48 + 60 + 84 + 12);
}

TEST_CASE("Sampling: the inverse of the cumulative distribution picks the golden ids", "[sampling][golden]") {
  int64_t checked = 0;
  for (const GoldenCase& golden : GoldenCases("sampling.json", "sampling/inverse_cdf")) {
    std::vector<float> logits;
    for (const json& logit : golden.inputs.at("logits")) logits.push_back(static_cast<float>(GoldenNumber(logit)));
    for (size_t i = 0; i < golden.inputs.at("u").size(); ++i) {
      const SamplingRow parameters{.uniform = golden.inputs.at("u")[i].get<double>()};
      SampledToken token;
      SampleRows(logits.data(), 1, static_cast<int64_t>(logits.size()), &parameters, &token);
      CHECK(token.token == golden.outputs.at("ids")[i].get<int32_t>());
      ++checked;
    }
  }
  CHECK(checked == 30);
}

}  // namespace troupe::kernels
