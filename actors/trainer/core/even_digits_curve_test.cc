// SPDX-License-Identifier: Apache-2.0
// The task of examples/even_digits without processes: rollout engine and trainer core in one loop, from scratch.
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "actors/rollout/engine/engine.h"
#include "actors/trainer/core/trainer_core.h"
#include "catch2/catch.hpp"

namespace troupe {
namespace {

constexpr size_t kPrompts = 256, kPromptTokens = 8, kPromptsPerStep = 16, kSamples = 8, kResponseTokens = 8;
constexpr int32_t kEos = 1, kFirstDigit = 2;

ModelConfig EvenDigits() {
  ModelConfig config;
  config.vocab_size = 32;  // pad, eos, 0-9a-t
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 16;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = true;
  config.eos_token_ids = {kEos};
  return config;
}

ModelWeights FromScratch(const ModelConfig& config, uint64_t seed) {
  ModelWeights weights = ModelWeights::Allocate(LayoutOf(config, ElementType::kF32).value());
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(config.initializer_range));
  for (const WeightEntry& entry : weights.layout().entries) {
    const bool norm = entry.name.find("norm") != std::string::npos;
    for (float& value : weights.Float32(entry.name)) value = norm ? 1.0f : normal(random);
  }
  return weights;
}

ModelWeights Copy(const ModelWeights& weights) {
  ModelWeights copy = ModelWeights::Allocate(weights.layout());
  std::memcpy(copy.bytes().data(), weights.bytes().data(), weights.bytes().size());
  return copy;
}

std::vector<std::vector<int32_t>> FixedPrompts(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int32_t>> prompts(kPrompts);
  for (auto& prompt : prompts) {
    for (size_t i = 0; i < kPromptTokens; ++i) prompt.push_back(kFirstDigit + static_cast<int32_t>(random() % 30));
  }
  return prompts;
}

double Reward(const std::vector<int32_t>& tokens) {
  int even = 0;
  for (int32_t token : tokens) even += token >= kFirstDigit && token < kFirstDigit + 10 && token % 2 == 0 ? 1 : 0;
  return even / 8.0;
}

// One group a prompt, its samples in any order.
TrainBatch Rollout(rollout::RolloutEngine& engine, const std::vector<std::vector<int32_t>>& prompts, size_t step,
                   uint64_t seed) {
  TrainBatch batch;
  for (size_t g = 0; g < kPromptsPerStep; ++g) {
    const size_t prompt = (step * kPromptsPerStep + g) % kPrompts;
    batch.groups.push_back({.group_id = absl::StrCat(step, "-", prompt), .prompt_ids = prompts[prompt], .samples = {}});
    for (size_t i = 0; i < kSamples; ++i) {
      rollout::GenerationRequest request;
      request.request_id = g * kSamples + i;
      request.prompt_ids = prompts[prompt];
      request.seed = seed;
      request.prompt_id = prompt;
      request.epoch = step;
      request.sample_index = static_cast<int32_t>(i);
      request.params.max_new_tokens = kResponseTokens;
      request.params.stop_token_ids = {kEos};
      REQUIRE(engine.Add(request).ok());
    }
  }
  while (!engine.idle()) {
    const std::vector<rollout::Generation> ended = engine.Step().value();
    for (const rollout::Generation& done : ended) {
      TrainSample sample;
      sample.row_id = absl::StrCat(step, "-", done.request_id);
      sample.response_ids = done.tokens;
      sample.rollout_logprobs.assign(done.rollout_logprobs.begin(), done.rollout_logprobs.end());
      sample.reward = Reward(done.tokens);
      batch.groups[done.request_id / kSamples].samples.push_back(sample);
    }
  }
  return batch;
}

}  // namespace

TEST_CASE("Curve: even_digits is learnt from scratch within 15 steps", "[curve]") {
  const ModelConfig config = EvenDigits();
  ModelWeights weights = FromScratch(config, 3);
  TrainerOptions options;
  options.adv_epsilon = 1e-4;
  options.optim.lr = 1e-2;
  options.optim.weight_decay = 0;
  auto engine =
      rollout::RolloutEngine::Create(config, Copy(weights), {}, {.kv_bytes = 8 << 20, .num_threads = 1}).value();
  std::unique_ptr<TrainerCore> trainer = TrainerCore::Create(config, weights, options).value();
  const auto prompts = FixedPrompts(7);
  std::vector<double> rewards;
  for (size_t step = 0; step < 18; ++step) {
    const StepMetrics metrics = trainer->Step(Rollout(*engine, prompts, step, 1)).value();
    rewards.push_back(metrics.values.at("critic/score/mean"));
    // What the engine says about its tokens is what the trainer computes (which it does not where all rewards are
    // equal).
    const auto difference = metrics.values.find("training/rollout_probs_diff_max");
    if (difference != metrics.values.end()) CHECK(difference->second < 1e-4);
    REQUIRE(
        engine->UpdateWeights(Copy(trainer->weights()), {.step = trainer->step()}, rollout::OnUpdate::kRecompute).ok());
  }
  INFO("first " << rewards.front() << ", last " << rewards.back());
  CHECK(rewards.front() < 0.25);
  CHECK((rewards[15] + rewards[16] + rewards[17]) / 3 > 0.9);
}

}  // namespace troupe
