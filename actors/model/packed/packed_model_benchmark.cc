// SPDX-License-Identifier: Apache-2.0
// The passes of one GRPO step of examples/addition (4 prompts of 20 tokens, 8 responses of 8) on a model of SmolLM2's
// shape with random weights, beside the same matrix products alone.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <random>

#include "actors/model/packed/gemm.h"
#include "actors/model/packed/naive_llama.h"
#include "actors/model/packed/packed_logprobs.h"

namespace troupe {
namespace {

constexpr int kPrompts = 4, kPromptLength = 20, kResponses = 8, kResponseLength = 8;
constexpr int64_t kRows = kPrompts * (kPromptLength + kResponses * (kResponseLength - 1));

ModelConfig SmolLm2Config() {
  ModelConfig config;
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_hidden_layers = 30;
  config.num_attention_heads = 9;
  config.num_key_value_heads = 3;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  return config;
}

struct Setup {
  ModelWeights weights = TestWeights(SmolLm2Config(), 1);
  ModelWeights gradients = ModelWeights::Allocate(weights.layout());
  std::unique_ptr<PackedModel> model = PackedModel::Create(SmolLm2Config(), weights).value();
  std::vector<int32_t> tokens;
  std::vector<PackedGroup> groups;

  Setup() : tokens(kPromptLength + kResponses * kResponseLength) {
    std::mt19937 random(1);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 49152);
    const absl::Span<const int32_t> all = tokens;
    for (int g = 0; g < kPrompts; ++g) {
      groups.push_back({.prompt = all.subspan(0, kPromptLength), .responses = {}});
      for (int i = 0; i < kResponses; ++i) {
        groups.back().responses.push_back(all.subspan(kPromptLength + i * kResponseLength, kResponseLength));
      }
    }
  }
};

Setup& Shared() {
  static auto* setup = new Setup;
  return *setup;
}

void BM_Score(benchmark::State& state) {
  Shared();
  for (auto _ : state) benchmark::DoNotOptimize(Shared().model->Score(Shared().groups, {}).value());
}
BENCHMARK(BM_Score)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

void BM_ForwardBackward(benchmark::State& state) {
  Setup& s = Shared();
  const std::vector<float> d(kPrompts * kResponses * kResponseLength, 1e-3f);
  for (auto _ : state) {
    std::shared_ptr<PackedTape> tape;
    benchmark::DoNotOptimize(s.model->Forward(s.groups, {.entropy = true}, &tape).value());
    s.model->Backward(*tape, d, {}, /*accumulate=*/false, s.gradients);
  }
}
BENCHMARK(BM_ForwardBackward)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

// The limit: forward and backward matrix products of all layers and of the head, nothing else.
void BM_MatrixProductsAlone(benchmark::State& state) {
  const ModelConfig c = SmolLm2Config();
  const int64_t shapes[][2] = {{576, 960}, {576, 576}, {576, 3072}, {1536, 576}};
  std::vector<float> x(kRows * 3072, 0.01f), y(kRows * 49152, 0.01f), w(49152 * 576, 0.01f), dw(49152 * 576);
  const auto pass = [&](int64_t in, int64_t out) {
    packed::Linear(x.data(), w.data(), nullptr, y.data(), kRows, in, out);
    packed::LinearGradInput(y.data(), w.data(), x.data(), kRows, in, out, false);
    packed::LinearGradWeight(y.data(), x.data(), dw.data(), nullptr, kRows, in, out, false);
  };
  for (auto _ : state) {
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      for (const auto& shape : shapes) pass(shape[0], shape[1]);
    }
    pass(576, 49152);
  }
}
BENCHMARK(BM_MatrixProductsAlone)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

}  // namespace
}  // namespace troupe
