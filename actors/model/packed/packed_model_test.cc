// SPDX-License-Identifier: Apache-2.0
// The packed pass against the naive one. Values against Transformers are in //tools/golden_runner.
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <random>

#include "actors/model/packed/naive_llama.h"
#include "actors/model/packed/packed_logprobs.h"
#include "catch2/catch.hpp"

namespace troupe {
namespace {

ModelConfig SmallConfig() {
  ModelConfig config;
  config.vocab_size = 40;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 10;
  config.max_position_embeddings = 64;
  config.initializer_range = 0.3;  // far from uniform
  config.tie_word_embeddings = true;
  return config;
}

struct Rows {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::vector<std::vector<int32_t>>> responses;

  std::vector<PackedGroup> groups() const {
    std::vector<PackedGroup> result;
    for (size_t g = 0; g < prompts.size(); ++g) {
      result.push_back({.prompt = prompts[g], .responses = {}});
      for (const auto& response : responses[g]) result.back().responses.push_back(response);
    }
    return result;
  }
};

// Responses of several lengths, one of them empty and one of a single token.
Rows RandomRows(int32_t vocabulary) {
  std::mt19937 random(5);
  const auto tokens = [&](size_t count) {
    std::vector<int32_t> result(count);
    for (int32_t& token : result) token = static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
    return result;
  };
  return {.prompts = {tokens(5), tokens(1), tokens(9)},
          .responses = {{tokens(3), tokens(0), tokens(7)}, {tokens(4)}, {tokens(1), tokens(2), tokens(6), tokens(5)}}};
}

// Weights of the loss sum_t (u_t logp_t + w_t H_t): one for each response token, in order.
struct Coefficients {
  std::vector<float> logprob, entropy;
};
Coefficients RandomCoefficients(const Rows& rows) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  Coefficients result;
  for (const auto& group : rows.responses) {
    for (const auto& response : group) {
      for (size_t i = 0; i < response.size(); ++i) {
        result.logprob.push_back(normal(random));
        result.entropy.push_back(normal(random));
      }
    }
  }
  return result;
}

// Log-probabilities and entropies by the naive model, which also gets the loss's gradient.
PackedScores Naive(NaiveLlama& model, const Rows& rows, double temperature, const Coefficients& c) {
  PackedScores scores;
  size_t token = 0;
  for (size_t g = 0; g < rows.prompts.size(); ++g) {
    for (const auto& response : rows.responses[g]) {
      std::vector<int32_t> sequence = rows.prompts[g];
      sequence.insert(sequence.end(), response.begin(), response.end());
      const at::Tensor log_p = (model.Logits(sequence) / temperature).log_softmax(-1);
      for (size_t i = 0; i < response.size(); ++i, ++token) {
        const at::Tensor row = log_p.select(0, static_cast<int64_t>(rows.prompts[g].size() + i) - 1);
        const at::Tensor logprob = row.select(0, response[i]);
        const at::Tensor entropy = -(row.exp() * row).sum();
        scores.logprobs.push_back(logprob.item<float>());
        scores.entropy.push_back(entropy.item<float>());
        (logprob * c.logprob[token] + entropy * c.entropy[token]).backward({}, /*retain_graph=*/true);
      }
    }
  }
  return scores;
}

void CheckGradients(const NaiveLlama& naive, const ModelWeights& gradients) {
  for (const WeightEntry& entry : gradients.layout().entries) {
    const at::Tensor got = at::from_blob(gradients.Float32(entry.name).data(), entry.shape, at::kFloat);
    const at::Tensor want = naive.Gradient(entry.name);
    const double difference = (got.to(at::kDouble) - want).norm().item<double>();
    INFO(entry.name << ": norm " << want.norm().item<double>() << ", difference " << difference);
    CHECK(difference <= 1e-5 * want.norm().item<double>() + 1e-6);
  }
}

void CompareWithNaive(const ModelConfig& config, double temperature) {
  const ModelWeights weights = TestWeights(config, 3);
  const Rows rows = RandomRows(static_cast<int32_t>(config.vocab_size));
  const Coefficients c = RandomCoefficients(rows);
  NaiveLlama naive(config, weights);
  const PackedScores want = Naive(naive, rows, temperature, c);

  std::unique_ptr<PackedModel> model = PackedModel::Create(config, weights).value();
  std::shared_ptr<PackedTape> tape;
  const PackedScores got = model->Forward(rows.groups(), {.temperature = temperature, .entropy = true}, &tape).value();
  REQUIRE(got.logprobs.size() == want.logprobs.size());
  for (size_t i = 0; i < want.logprobs.size(); ++i) {
    CHECK(std::abs(got.logprobs[i] - want.logprobs[i]) < 2e-5);
    CHECK(std::abs(got.entropy[i] - want.entropy[i]) < 2e-5);
  }
  ModelWeights gradients = ModelWeights::Allocate(weights.layout());
  model->Backward(*tape, c.logprob, c.entropy, /*accumulate=*/false, gradients);
  CheckGradients(naive, gradients);
}

}  // namespace

TEST_CASE("Packed: scores and gradients equal those of separate sequences", "[packed]") {
  CompareWithNaive(SmallConfig(), 1.0);
}

TEST_CASE("Packed: the temperature divides the logits, in the gradient too", "[packed]") {
  CompareWithNaive(SmallConfig(), 0.7);
}

TEST_CASE("Packed: biases and an untied head", "[packed]") {
  ModelConfig config = SmallConfig();
  config.attention_bias = config.mlp_bias = true;
  config.tie_word_embeddings = false;
  CompareWithNaive(config, 1.3);
}

TEST_CASE("Packed: the gradient does not depend on how rows fall into passes", "[packed]") {
  const ModelConfig config = SmallConfig();
  const ModelWeights weights = TestWeights(config, 3);
  const Rows rows = RandomRows(40);
  const Coefficients c = RandomCoefficients(rows);
  std::unique_ptr<PackedModel> model = PackedModel::Create(config, weights).value();
  std::shared_ptr<PackedTape> tape;
  ModelWeights whole = ModelWeights::Allocate(weights.layout());
  REQUIRE(model->Forward(rows.groups(), {}, &tape).ok());
  model->Backward(*tape, c.logprob, {}, /*accumulate=*/false, whole);

  ModelWeights parts = ModelWeights::Allocate(weights.layout());
  size_t token = 0;
  bool accumulate = false;
  for (const PackedGroup& group : rows.groups()) {  // each sample on its own: prompts are computed again
    for (const auto& response : group.responses) {
      const PackedGroup single{.prompt = group.prompt, .responses = {response}};
      REQUIRE(model->Forward({&single, 1}, {}, &tape).ok());
      model->Backward(*tape, absl::MakeConstSpan(c.logprob).subspan(token, response.size()), {}, accumulate, parts);
      token += response.size();
      accumulate = true;
    }
  }
  for (const WeightEntry& entry : weights.layout().entries) {
    const at::Tensor a = at::from_blob(whole.Float32(entry.name).data(), entry.shape, at::kFloat);
    const at::Tensor b = at::from_blob(parts.Float32(entry.name).data(), entry.shape, at::kFloat);
    INFO(entry.name);
    CHECK((a - b).norm().item<double>() <= 1e-5 * a.norm().item<double>());
  }
}

TEST_CASE("Packed: scoring alone gives the bits of the differentiable pass", "[packed]") {
  const ModelConfig config = SmallConfig();
  std::unique_ptr<PackedModel> model = PackedModel::Create(config, TestWeights(config, 3)).value();
  const Rows rows = RandomRows(40);
  std::shared_ptr<PackedTape> tape;
  const PackedScores scored = model->Score(rows.groups(), {}).value();
  const PackedScores forward = model->Forward(rows.groups(), {.entropy = true}, &tape).value();
  CHECK(scored.logprobs == forward.logprobs);
  CHECK(scored.entropy.empty());
}

TEST_CASE("Packed: bad rows are refused by name", "[packed]") {
  const ModelConfig config = SmallConfig();
  std::unique_ptr<PackedModel> model = PackedModel::Create(config, TestWeights(config, 3)).value();
  const std::vector<int32_t> good = {1, 2};
  const std::vector<int32_t> outside = {1, 40};
  const std::vector<int32_t> too_long(63, 1);
  const auto message = [&](const PackedGroup& group) {
    return std::string(model->Score({&group, 1}, {}).status().message());
  };
  CHECK(message({.prompt = {}, .responses = {good}}).find("empty prompt") != std::string::npos);
  CHECK(message({.prompt = good, .responses = {outside}}).find("vocabulary") != std::string::npos);
  CHECK(message({.prompt = good, .responses = {too_long}}).find("context") != std::string::npos);
  CHECK_FALSE(PackedModel::Create(config, ModelWeights()).ok());
}

}  // namespace troupe
