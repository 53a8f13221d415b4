// SPDX-License-Identifier: Apache-2.0
// Steps of the trainer on a tiny model: what they must not depend on, what must not poison them, save and load.
#include "actors/trainer/core/trainer_core.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "actors/model/files/safetensors.h"
#include "actors/trainer/core/adamw_state.h"
#include "actors/trainer/core/schedule.h"
#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

ModelConfig TinyConfig() {
  ModelConfig config;
  config.vocab_size = 16;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = true;
  return config;
}

ModelWeights TinyWeights() {
  ModelWeights weights = ModelWeights::Allocate(LayoutOf(TinyConfig(), ElementType::kF32).value());
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 0.2f);
  for (const WeightEntry& entry : weights.layout().entries) {
    const float centre = entry.name.find("norm") != std::string::npos ? 1.0f : 0.0f;
    for (float& value : weights.Float32(entry.name)) value = centre + normal(random);
  }
  return weights;
}

TrainerOptions TinyOptions() {
  TrainerOptions options;
  options.adv_epsilon = 1e-4;
  options.optim.lr = 1e-2;
  options.optim.weight_decay = 0;
  return options;
}

// `groups` groups of 4 responses of 1 to 6 tokens, with rewards 0 or 1 and log-probabilities of an engine and a
// reference.
TrainBatch RandomBatch(unsigned seed, int groups = 3) {
  std::mt19937 random(seed);
  const auto token = [&] { return static_cast<int32_t>(random() % 16); };
  TrainBatch batch;
  for (int g = 0; g < groups; ++g) {
    TrainGroup group{.group_id = absl::StrCat("0-", g), .prompt_ids = {token(), token(), token()}, .samples = {}};
    for (int i = 0; i < 4; ++i) {
      TrainSample sample;
      sample.row_id = absl::StrCat("0-", g, "-", i);
      sample.reward = i % 2;
      const size_t length = 1 + random() % 6;
      for (size_t t = 0; t < length; ++t) {
        sample.response_ids.push_back(token());
        sample.rollout_logprobs.push_back(-2.5f - 0.001f * static_cast<float>(random() % 500));
        sample.ref_logprobs.push_back(-2.5f - 0.001f * static_cast<float>(random() % 500));
      }
      group.samples.push_back(sample);
    }
    batch.groups.push_back(group);
  }
  return batch;
}

std::unique_ptr<TrainerCore> Trainer(const TrainerOptions& options) {
  absl::StatusOr<std::unique_ptr<TrainerCore>> trainer = TrainerCore::Create(TinyConfig(), TinyWeights(), options);
  REQUIRE(trainer.ok());
  return *std::move(trainer);
}

std::vector<float> Flat(const ModelWeights& weights) {
  const absl::Span<float> values = FlatFloats(weights);
  return {values.begin(), values.end()};
}

double MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

// Parameters after one step of `batch`.
std::vector<float> After(const TrainerOptions& options, const TrainBatch& batch, StepMetrics* metrics = nullptr) {
  std::unique_ptr<TrainerCore> trainer = Trainer(options);
  absl::StatusOr<StepMetrics> result = trainer->Step(batch);
  REQUIRE(result.ok());
  if (metrics != nullptr) *metrics = *result;
  return Flat(trainer->weights());
}

// Writes the weights as a folder that ModelSource opens.
void SaveModel(const TrainerCore& trainer, const std::string& dir) {
  std::vector<SafetensorsEntry> entries;
  for (const WeightEntry& entry : trainer.weights().layout().entries) {
    SafetensorsEntry named;
    named.name = entry.name;
    named.type = ElementType::kF32;
    named.shape = entry.shape;
    entries.push_back(named);
  }
  auto writer = SafetensorsWriter::Create(dir + "/model.safetensors", entries, {{"format", "pt"}}).value();
  for (const WeightEntry& entry : trainer.weights().layout().entries) {
    const std::span<float> values = trainer.weights().Float32(entry.name);
    REQUIRE(writer->WriteFloats(entry.name, {values.data(), values.size()}).ok());
  }
  REQUIRE(writer->Finish().ok());
  REQUIRE(WriteFileAtomic(dir + "/config.json", ModelConfigToJson(trainer.config()).dump()).ok());
}

}  // namespace

TEST_CASE("Trainer: a step moves probability towards the rewarded responses", "[trainer]") {
  std::unique_ptr<TrainerCore> trainer = Trainer(TinyOptions());
  StepMetrics metrics;
  for (int i = 0; i < 5; ++i) metrics = trainer->Step(RandomBatch(1)).value();
  CHECK(trainer->step() == 5);
  CHECK(metrics.step == 5);
  CHECK(metrics.values.at("actor/grad_norm") > 0);
  CHECK(metrics.values.at("actor/lr") == 1e-2);
  CHECK(metrics.values.at("critic/score/mean") == 0.5);
  CHECK(metrics.values.at("actor/ppo_kl") == 0);  // one optimizer step: the ratio is exactly 1
}

TEST_CASE("Trainer: the update does not depend on the token budget of a micro-batch", "[trainer]") {
  for (const char* mode : {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    TrainerOptions options = TinyOptions();
    options.loss_agg_mode = mode;
    options.use_kl_loss = true;
    options.entropy_coeff = 0.01;
    const std::vector<float> whole = After(options, RandomBatch(1));
    options.ppo_max_token_len = 9;  // each response with its prompt on its own
    CHECK(MaxDifference(After(options, RandomBatch(1)), whole) < 2e-5);
  }
}

TEST_CASE("Trainer: groups without a gradient are left out and change nothing", "[trainer]") {
  TrainBatch batch = RandomBatch(1);
  for (TrainSample& sample : batch.groups[1].samples) sample.reward = 0.7;
  StepMetrics skipped, computed;
  TrainerOptions options = TinyOptions();
  const std::vector<float> a = After(options, batch, &skipped);
  options.skip_equal_groups = false;
  const std::vector<float> b = After(options, batch, &computed);
  CHECK(MaxDifference(a, b) < 1e-6);
  CHECK(skipped.values.at("actor/grad_norm") == Approx(computed.values.at("actor/grad_norm")).epsilon(1e-5));
  CHECK(skipped.values.at("frac_reward_zero_std") == Approx(1.0 / 3));
  CHECK(skipped.values.at("actor/entropy") != Approx(computed.values.at("actor/entropy")));  // without their passes
  batch.groups.erase(batch.groups.begin() + 1);
  StepMetrics others;
  After(options, batch, &others);
  CHECK(skipped.values.at("actor/entropy") == Approx(others.values.at("actor/entropy")).epsilon(1e-5));
}

TEST_CASE("Trainer: when no group has a gradient the optimizer still steps", "[trainer]") {
  TrainBatch equal = RandomBatch(1);
  for (TrainGroup& group : equal.groups) {
    for (TrainSample& sample : group.samples) sample.reward = 1;
  }
  std::unique_ptr<TrainerCore> trainer = Trainer(TinyOptions());
  REQUIRE(trainer->Step(RandomBatch(1)).ok());
  const std::vector<float> before = Flat(trainer->weights());
  const StepMetrics metrics = trainer->Step(equal).value();
  CHECK(metrics.values.at("actor/grad_norm") == 0);
  CHECK(MaxDifference(before, Flat(trainer->weights())) > 0);  // by momentum
  CHECK(trainer->step() == 2);
}

TEST_CASE("Trainer: rows with NaN or Inf are dropped, counted, and poison nothing", "[trainer]") {
  TrainBatch batch = RandomBatch(1);
  batch.groups[0].samples[1].reward = kNaN;
  batch.groups[1].samples[2].rollout_logprobs[0] = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < 3; ++i) batch.groups[2].samples[i].reward = kNaN;  // one is left: nothing to compare it with
  StepMetrics metrics;
  const std::vector<float> weights = After(TinyOptions(), batch, &metrics);
  CHECK(metrics.dropped_rows == std::vector<std::string>{"0-0-1", "0-1-2", "0-2-0", "0-2-1", "0-2-2", "0-2-3"});
  CHECK(metrics.skipped_updates == 0);
  for (float value : weights) REQUIRE(std::isfinite(value));

  TrainBatch without = RandomBatch(1);
  without.groups.pop_back();
  without.groups[0].samples.erase(without.groups[0].samples.begin() + 1);
  without.groups[1].samples.erase(without.groups[1].samples.begin() + 2);
  CHECK((After(TinyOptions(), without) == weights));
}

TEST_CASE("Trainer: tokens outside the mask count nowhere, whatever their columns hold", "[trainer]") {
  TrainerOptions options = TinyOptions();
  options.use_kl_loss = true;
  options.max_staleness = 1;
  TrainBatch clean = RandomBatch(1);
  TrainSample& sample = clean.groups[0].samples[0];
  sample.response_mask.assign(sample.response_ids.size(), 1);
  sample.response_mask[0] = 0;
  TrainBatch poisoned = clean;
  poisoned.groups[0].samples[0].rollout_logprobs[0] = kNaN;
  poisoned.groups[0].samples[0].ref_logprobs[0] = kNaN;
  StepMetrics metrics;
  CHECK((After(options, poisoned, &metrics) == After(options, clean)));
  CHECK(metrics.dropped_rows.empty());
  CHECK(metrics.skipped_updates == 0);
}

TEST_CASE("Trainer: an empty response does not shift its group", "[trainer]") {
  TrainBatch batch = RandomBatch(1);
  TrainSample empty;
  empty.row_id = "0-0-4";
  empty.reward = 100;
  TrainBatch with_empty = batch;
  with_empty.groups[0].samples.push_back(empty);
  StepMetrics metrics;
  CHECK((After(TinyOptions(), with_empty, &metrics) == After(TinyOptions(), batch)));
  CHECK(metrics.values.at("response/aborted_ratio") == Approx(1.0 / 13));
}

TEST_CASE("Trainer: a gradient that is not finite skips the update and is counted", "[trainer]") {
  ModelWeights weights = TinyWeights();
  weights.Float32("model.norm.weight")[0] = std::numeric_limits<float>::infinity();
  std::unique_ptr<TrainerCore> trainer = TrainerCore::Create(TinyConfig(), weights, TinyOptions()).value();
  const std::vector<float> before = Flat(trainer->weights());
  const StepMetrics metrics = trainer->Step(RandomBatch(1)).value();
  CHECK(metrics.skipped_updates == 1);
  CHECK((Flat(trainer->weights()) == before));
}

TEST_CASE("Trainer: malformed batches are refused by row, and nothing changes", "[trainer]") {
  std::unique_ptr<TrainerCore> trainer = Trainer(TinyOptions());
  const std::vector<float> before = Flat(trainer->weights());
  const auto refused = [&](auto spoil) {
    TrainBatch batch = RandomBatch(1);
    spoil(batch.groups[1].samples[2]);
    const absl::Status status = trainer->Step(batch).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(refused([](TrainSample& s) { s.response_ids[0] = 16; }).find("row 0-1-2") != std::string::npos);
  CHECK(refused([](TrainSample& s) { s.rollout_logprobs.push_back(0); }).find("row 0-1-2") != std::string::npos);
  CHECK(refused([](TrainSample& s) {
          s = {.row_id = s.row_id, .response_ids = std::vector<int32_t>(62, 1)};
        }).find("row 0-1-2") != std::string::npos);
  CHECK((Flat(trainer->weights()) == before));
  CHECK(trainer->step() == 0);
}

TEST_CASE("Trainer: options with unknown names or impossible values are refused", "[trainer]") {
  const auto message = [](auto change) {
    TrainerOptions options;
    change(options);
    return std::string(TrainerCore::Create(TinyConfig(), TinyWeights(), options).status().message());
  };
  CHECK(message([](TrainerOptions& o) { o.adv_estimator = "grpp"; }).find("did you mean \"grpo\"") !=
        std::string::npos);
  CHECK(message([](TrainerOptions& o) { o.adv_estimator = "gae"; }).find("gae needs values") != std::string::npos);
  CHECK(message([](TrainerOptions& o) { o.loss_agg_mode = "token-meen"; }).find("token-mean") != std::string::npos);
  CHECK(message([](TrainerOptions& o) { o.optim.lr_scheduler_type = "cosinus"; }).find("cosine") != std::string::npos);
  CHECK(message([](TrainerOptions& o) { o.optim.lr_scheduler_type = "linear"; }).find("total_steps") !=
        std::string::npos);
  CHECK(message([](TrainerOptions& o) { o.temperature = 0; }).find("temperature") != std::string::npos);
  CHECK(message([](TrainerOptions&) {}).empty());
}

TEST_CASE("Trainer: several optimizer steps share log-probabilities from before the first", "[trainer]") {
  TrainerOptions options = TinyOptions();
  options.ppo_mini_batch_size = 1;
  options.ppo_epochs = 2;
  options.use_kl_loss = true;
  options.max_staleness = 1;  // importance weights against the engine
  StepMetrics metrics;
  After(options, RandomBatch(1), &metrics);
  CHECK(metrics.values.at("actor/ppo_kl") != 0);
  CHECK(metrics.values.at("rollout_corr/rollout_is_max") <= 2);
  CHECK(metrics.values.at("actor/kl_loss") > 0);

  TrainBatch without = RandomBatch(1);
  without.groups[0].samples[0].rollout_logprobs.clear();
  CHECK_FALSE(Trainer(options)->Step(without).ok());
}

TEST_CASE("Trainer: a run that was saved and loaded continues bit by bit", "[trainer]") {
  TrainerOptions options = TinyOptions();
  options.optim.lr_scheduler_type = "linear";
  options.optim.lr_warmup_steps = 2;
  options.total_steps = 10;
  std::unique_ptr<TrainerCore> straight = Trainer(options);
  const std::string dir = MakeTemporaryDirectory("trainer").value();
  for (unsigned step = 0; step < 6; ++step) {
    if (step == 3) {
      REQUIRE(straight->SaveState(dir).ok());
      SaveModel(*straight, dir);
    }
    REQUIRE(straight->Step(RandomBatch(step)).ok());
  }
  std::unique_ptr<TrainerCore> resumed = Trainer(options);
  REQUIRE(resumed->Load(dir).ok());
  CHECK(resumed->step() == 3);
  for (unsigned step = 3; step < 6; ++step) REQUIRE(resumed->Step(RandomBatch(step)).ok());
  CHECK((Flat(resumed->weights()) == Flat(straight->weights())));

  REQUIRE(WriteFileAtomic(dir + "/trainer_state.json", "{}").ok());
  CHECK_FALSE(resumed->Load(dir).ok());
  CHECK(resumed->step() == 6);
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("Trainer: a KL in the reward is taken off it, and its coefficient follows the target, also after a load",
          "[trainer]") {
  TrainerOptions options = TinyOptions();
  options.use_kl_in_reward = true;
  options.kl_penalty = "low_var_kl";
  options.kl_ctrl = {.type = "adaptive", .kl_coef = 0.5, .horizon = 100, .target_kl = 1e-6};
  std::unique_ptr<TrainerCore> trainer = Trainer(options);
  const StepMetrics first = trainer->Step(RandomBatch(1)).value();
  CHECK(first.values.at("actor/reward_kl_penalty") > 1e-3);
  CHECK(first.values.at("actor/reward_kl_penalty_coeff") == 0.5);
  CHECK(first.values.at("critic/rewards/mean") < first.values.at("critic/score/mean"));
  const std::string dir = MakeTemporaryDirectory("trainer").value();
  REQUIRE(trainer->SaveState(dir).ok());
  SaveModel(*trainer, dir);
  std::unique_ptr<TrainerCore> resumed = Trainer(options);
  REQUIRE(resumed->Load(dir).ok());
  for (TrainerCore* one : {trainer.get(), resumed.get()}) {  // 12 rows, far over the target
    const StepMetrics second = one->Step(RandomBatch(2)).value();
    CHECK(second.values.at("actor/reward_kl_penalty_coeff") == Approx(0.5 * (1 + 0.2 * 12 / 100)));
  }
  CHECK((Flat(resumed->weights()) == Flat(trainer->weights())));
  options.kl_ctrl.type = "fixed";
  std::unique_ptr<TrainerCore> fixed = Trainer(options);
  for (unsigned step = 1; step < 3; ++step) {
    CHECK(fixed->Step(RandomBatch(step)).value().values.at("actor/reward_kl_penalty_coeff") == 0.5);
  }
  REQUIRE(fixed->Load(dir).ok());
  CHECK(fixed->Step(RandomBatch(2)).value().values.at("actor/reward_kl_penalty_coeff") == 0.5);
  REQUIRE(RemoveTree(dir).ok());
}

TEST_CASE("Trainer: a KL in the reward needs the reference only where its coefficient is not 0", "[trainer]") {
  TrainBatch batch = RandomBatch(1);
  for (TrainGroup& group : batch.groups) {
    for (TrainSample& sample : group.samples) sample.ref_logprobs.clear();
  }
  TrainerOptions options = TinyOptions();
  options.use_kl_in_reward = true;
  options.kl_ctrl.kl_coef = 0;
  CHECK(Trainer(options)->Step(batch).ok());
  options.kl_ctrl.kl_coef = 0.1;
  CHECK(absl::IsInvalidArgument(Trainer(options)->Step(batch).status()));
}

TEST_CASE("Schedule: what goes down ends at min_lr_ratio, and the warm-up is as it was", "[trainer]") {
  for (const char* type : {"linear", "cosine"}) {
    ScheduleOptions options{
        .lr_scheduler_type = type, .num_warmup_steps = 2, .num_training_steps = 10, .min_lr_ratio = 0.2};
    CHECK(*LearningRateFactor(options, 1) == 0.5);
    CHECK(*LearningRateFactor(options, 2) == 1);
    CHECK(*LearningRateFactor(options, 6) == Approx(0.6));
    CHECK(*LearningRateFactor(options, 10) == Approx(0.2));
    CHECK(*LearningRateFactor(options, 12) >= 0.2);
  }
}

}  // namespace troupe
