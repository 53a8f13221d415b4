// SPDX-License-Identifier: Apache-2.0
// The forward pass against Transformers: tiny Llama models of every variety, and SmolLM2-135M-Instruct.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "actors/model/files/model_source.h"
#include "actors/model/llama/llama_inference.h"
#include "actors/model/weights.h"
#include "catch2/catch.hpp"
#include "kernels/log_softmax/log_softmax.h"
#include "tests/golden/golden.h"

namespace troupe {
namespace {

constexpr double kTinyTolerance = 1e-4;
constexpr double kSmolTolerance = 3e-4;
constexpr int64_t kPageTokens = 16;

// One sequence at a time, its pages simply in order.
class Scorer {
 public:
  explicit Scorer(const ModelConfig& config, ModelWeights weights)
      : model_(LlamaInference::Create(config, std::move(weights), 2).value()),
        cache_(KvCache::Create(config, kPageTokens, int64_t{64} << 20).value()),
        pages_(cache_.num_pages()) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Logits [tokens, vocabulary] of the tokens at positions `position`...
  std::span<const float> Forward(const std::vector<int32_t>& tokens, int64_t position) {
    ForwardBatch batch{.tokens = tokens};
    for (size_t i = 0; i < tokens.size(); ++i) {
      batch.positions.push_back(position + static_cast<int64_t>(i));
      batch.logit_rows.push_back(static_cast<int64_t>(i));
    }
    batch.sequences = {{pages_.data(), 0, static_cast<int64_t>(tokens.size()), position}};
    return model_->Forward(batch, cache_);
  }

  // Greedy tokens and the margin between the first and the second logit at each step.
  std::vector<int32_t> Greedy(std::vector<int32_t> tokens, int64_t count, int64_t vocabulary) {
    std::vector<int32_t> made;
    int64_t position = 0;
    while (static_cast<int64_t>(made.size()) < count) {
      const std::span<const float> logits = Forward(tokens, position).last(vocabulary);
      position += static_cast<int64_t>(tokens.size());
      made.push_back(kernels::SoftmaxStatsOf(logits.data(), vocabulary, 1.0f).argmax);
      tokens = {made.back()};
    }
    return made;
  }

  LlamaInference& model() { return *model_; }

 private:
  std::unique_ptr<LlamaInference> model_;
  KvCache cache_;
  std::vector<int32_t> pages_;
};

std::vector<double> TokenLogprobs(std::span<const float> logits, const std::vector<int32_t>& ids, int64_t vocabulary) {
  std::vector<double> logprobs(ids.size() - 1);
  kernels::LogSoftmaxGather(logits.data(), ids.data() + 1, static_cast<int64_t>(logprobs.size()), vocabulary, 1.0f,
                            logprobs.data());
  return logprobs;
}

double MaxDifference(std::span<const double> got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double max = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(std::isfinite(got[i]));
    max = std::max(max, std::abs(got[i] - expected[i]));
  }
  return max;
}

// The config comes from the case's folder; weights may be another folder's.
Scorer Load(const GoldenCase& golden, ModelConfig& config) {
  const std::string weights_file = golden.config.at("weights").get<std::string>();
  const std::string weights_folder = weights_file.substr(0, weights_file.rfind('/'));
  auto source = ModelSource::Open(GoldenPath(weights_folder));
  REQUIRE(source.ok());
  config = (*source)->config();
  if (golden.config.at("folder") != weights_folder) {
    std::ifstream file(GoldenPath(golden.config.at("folder").get<std::string>() + "/config.json"));
    config = ParseModelConfig(std::string(std::istreambuf_iterator<char>(file), {})).value();
  }
  return Scorer(config, LoadWeights(**source).value());
}

}  // namespace

TEST_CASE("LlamaInference: tiny models equal Transformers", "[llama][golden]") {
  double worst = 0;
  for (const GoldenCase& golden : GoldenCases("models.json", "model/llama")) {
    if (golden.name == "llama_rope_dynamic") continue;  // refused, see below
    CAPTURE(golden.name);
    ModelConfig config;
    Scorer scorer = Load(golden, config);
    for (size_t i = 0; i < golden.inputs.at("prompts").size(); ++i) {
      const auto ids = golden.inputs.at("prompts")[i].get<std::vector<int32_t>>();
      const auto& expected = golden.outputs.at("prompts")[i];
      const std::span<const float> logits = scorer.Forward(ids, 0);
      const std::span<const float> last3 = logits.last(3 * config.vocab_size);
      std::vector<double> expected_last3;
      for (const auto& row : expected.at("logits_last3")) {
        for (double logit : GoldenNumbers(row)) expected_last3.push_back(logit);
      }
      const double logits_off = MaxDifference(std::vector<double>(last3.begin(), last3.end()), expected_last3);
      const double logprobs_off =
          MaxDifference(TokenLogprobs(logits, ids, config.vocab_size), GoldenNumbers(expected.at("token_logprobs")));
      CHECK(logits_off <= kTinyTolerance);
      CHECK(logprobs_off <= kTinyTolerance);
      worst = std::max({worst, logits_off, logprobs_off});
      if (expected.at("greedy_min_margin").get<double>() > 2 * kTinyTolerance) {
        CHECK(scorer.Greedy(ids, 16, config.vocab_size) == expected.at("greedy").get<std::vector<int32_t>>());
      }
    }
  }
  INFO("worst difference " << worst);
  CHECK(worst <= kTinyTolerance);
}

TEST_CASE("LlamaInference: SmolLM2 equals Transformers", "[llama][golden]") {
  auto source = ModelSource::Open(GoldenModelPath());
  REQUIRE(source.ok());
  const ModelConfig& config = (*source)->config();
  Scorer scorer(config, LoadWeights(**source).value());

  for (const GoldenCase& golden : GoldenCases("smollm2.json", "score")) {
    CAPTURE(golden.name);
    const auto ids = golden.inputs.at("ids").get<std::vector<int32_t>>();
    const std::vector<double> logprobs = TokenLogprobs(scorer.Forward(ids, 0), ids, config.vocab_size);
    CHECK(MaxDifference(logprobs, GoldenNumbers(golden.outputs.at("token_logprobs"))) <= kSmolTolerance);
    CHECK(std::abs(std::accumulate(logprobs.begin(), logprobs.end(), 0.0) -
                   golden.outputs.at("total_logprob").get<double>()) <= kSmolTolerance);
  }
  for (const GoldenCase& golden : GoldenCases("smollm2.json", "generate")) {
    CAPTURE(golden.name);
    const auto ids = golden.inputs.at("ids").get<std::vector<int32_t>>();
    const std::span<const float> logits = scorer.Forward(ids, 0).last(config.vocab_size);
    std::vector<double> top5;
    for (int32_t id : golden.outputs.at("top5_ids").get<std::vector<int32_t>>()) top5.push_back(logits[id]);
    CHECK(MaxDifference(top5, GoldenNumbers(golden.outputs.at("top5_logits"))) <= kSmolTolerance);

    const auto expected = golden.outputs.at("greedy_ids").get<std::vector<int32_t>>();
    const std::vector<double> margins = GoldenNumbers(golden.outputs.at("greedy_margins"));
    const std::vector<int32_t> made = scorer.Greedy(ids, static_cast<int64_t>(expected.size()), config.vocab_size);
    for (size_t i = 0; i < made.size() && margins[i] > 2 * kSmolTolerance; ++i) CHECK(made[i] == expected[i]);
  }
}

TEST_CASE("LlamaInference: what is not there or does not fit is refused by name", "[llama]") {
  ModelConfig config{.vocab_size = 8,
                     .hidden_size = 16,
                     .intermediate_size = 16,
                     .num_hidden_layers = 1,
                     .num_attention_heads = 2,
                     .num_key_value_heads = 1,
                     .head_dim = 8};
  const ModelWeights weights = ModelWeights::Allocate(LayoutOf(config, ElementType::kF32).value());
  CHECK(LlamaInference::Create(config, weights, 1).ok());
  CHECK(LlamaInference::Create(config, ModelWeights(), 1).status().code() == absl::StatusCode::kInvalidArgument);
  ModelConfig other = config;
  other.num_hidden_layers = 2;
  CHECK(LlamaInference::Create(other, weights, 1).status().code() == absl::StatusCode::kInvalidArgument);
  other = config;
  other.rope_scaling.type = RopeType::kDynamic;
  CHECK(LlamaInference::Create(other, weights, 1).status().code() == absl::StatusCode::kUnimplemented);
  other = config;
  other.model_type = "gemma2";
  CHECK(LlamaInference::Create(other, weights, 1).status().code() == absl::StatusCode::kUnimplemented);
}

}  // namespace troupe
