// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/trainer_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/algorithms/adaptive_kl.h"
#include "actors/model/files/model_source.h"
#include "actors/model/packed/packed_logprobs.h"
#include "actors/trainer/core/adamw_state.h"
#include "actors/trainer/core/batch_metrics.h"
#include "actors/trainer/core/batch_rows.h"
#include "actors/trainer/core/micro_batches.h"
#include "actors/trainer/core/objective.h"
#include "actors/trainer/core/schedule.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "trainer_state.json";
constexpr int64_t kStateBytesMax = 1 << 20;

// The groups of one optimizer step, and how they are cut.
struct MiniBatch {
  std::vector<size_t> groups;             // of the batch, those whose passes are not skipped
  std::vector<MicroBatch> micro_batches;  // pieces by index into `groups`
  MiniBatchCounts counts;                 // skipped groups included
};

// What a step gathers besides metrics.
struct StepState {
  BatchAdvantages advantages;
  std::vector<float> old_logprobs;  // flat; filled before the first optimizer step, or by it
  std::vector<uint8_t> scored;      // [rows]
  bool fixed_old = false;           // several optimizer steps: old_logprobs come from before the first
};

class PolicyTrainer final : public TrainerCore {
 public:
  PolicyTrainer(const ModelConfig& config, ModelWeights weights, const TrainerOptions& options,
                std::unique_ptr<PackedModel> model)
      : config_(config),
        options_(options),
        weights_(std::move(weights)),
        gradients_(ModelWeights::Allocate(weights_.layout())),
        optimizer_(weights_.layout()),
        model_(std::move(model)),
        reward_kl_{.kl_coef = options.use_kl_in_reward ? options.kl_ctrl.kl_coef : 0,
                   .target_kl = options.kl_ctrl.target_kl,
                   .horizon = options.kl_ctrl.horizon} {}

  absl::StatusOr<StepMetrics> Step(const TrainBatch& batch) override;
  const ModelWeights& weights() const override { return weights_; }
  const ModelConfig& config() const override { return config_; }
  int64_t step() const override { return step_; }
  absl::Status SaveState(const std::string& dir) const override;
  absl::Status Load(const std::string& dir) override;

 private:
  bool MustForwardAll() const {
    return !options_.skip_equal_groups || options_.entropy_coeff != 0 ||
           (options_.use_kl_loss && options_.kl_loss_coef != 0);
  }
  absl::StatusOr<std::vector<MiniBatch>> CutMiniBatches(const BatchRows& batch, const StepState& state) const;
  std::vector<PackedGroup> Pack(const BatchRows& batch, const MiniBatch& mini, const MicroBatch& micro,
                                std::vector<size_t>& rows) const;
  absl::Status ScoreBeforehand(const BatchRows& batch, const std::vector<MiniBatch>& minis, StepState& state);
  absl::Status Accumulate(const BatchRows& batch, const MiniBatch& mini, StepState& state,
                          std::map<std::string, double>& shares);
  absl::Status Optimize(const BatchRows& batch, const std::vector<MiniBatch>& minis, StepState& state,
                        StepMetrics& metrics);

  const ModelConfig config_;
  const TrainerOptions options_;
  ModelWeights weights_;
  ModelWeights gradients_;
  AdamWState optimizer_;
  std::unique_ptr<PackedModel> model_;
  AdaptiveKlController reward_kl_;  // a coefficient of 0: no KL in the reward
  int64_t step_ = 0;
  int64_t skipped_updates_ = 0;
};

bool HasGradient(const BatchRows& batch, const BatchRows::Group& group, absl::Span<const float> advantages) {
  for (size_t row = group.first_row; row < group.last_row; ++row) {
    const auto values =
        advantages.subspan(static_cast<size_t>(batch.rows[row].begin), static_cast<size_t>(batch.rows[row].length));
    if (std::any_of(values.begin(), values.end(), [](float a) { return a != 0; })) return true;
  }
  return false;
}

void Count(const BatchRows& batch, const BatchRows::Group& group, MiniBatchCounts& counts) {
  for (size_t row = group.first_row; row < group.last_row; ++row) {
    counts.tokens += static_cast<double>(batch.rows[row].trained);
    counts.rows += batch.rows[row].trained > 0 ? 1 : 0;
    counts.width = std::max(counts.width, static_cast<double>(batch.rows[row].length));
  }
}

void Scatter(const BatchRows& batch, const std::vector<size_t>& rows, absl::Span<const float> values,
             std::vector<float>& flat) {
  const float* next = values.data();
  for (size_t row : rows) {
    std::copy_n(next, batch.rows[row].length, flat.begin() + batch.rows[row].begin);
    next += batch.rows[row].length;
  }
}

absl::StatusOr<std::vector<MiniBatch>> PolicyTrainer::CutMiniBatches(const BatchRows& batch,
                                                                     const StepState& state) const {
  const size_t size = options_.ppo_mini_batch_size > 0 ? static_cast<size_t>(options_.ppo_mini_batch_size)
                                                       : std::max<size_t>(1, batch.groups.size());
  std::vector<MiniBatch> minis;
  for (size_t begin = 0; begin < batch.groups.size(); begin += size) {
    MiniBatch mini;
    std::vector<GroupTokens> costs;
    for (size_t g = begin; g < std::min(begin + size, batch.groups.size()); ++g) {
      const BatchRows::Group& group = batch.groups[g];
      Count(batch, group, mini.counts);
      if (!MustForwardAll() && !HasGradient(batch, group, state.advantages.advantages)) continue;
      mini.groups.push_back(g);
      costs.push_back({.prompt = static_cast<int64_t>(group.source->prompt_ids.size()), .responses = {}});
      for (size_t row = group.first_row; row < group.last_row; ++row) {
        costs.back().responses.push_back(batch.rows[row].length);
      }
    }
    TROUPE_ASSIGN_OR_RETURN(mini.micro_batches, CutByTokens(costs, options_.ppo_max_token_len));
    minis.push_back(std::move(mini));
  }
  return minis;
}

std::vector<PackedGroup> PolicyTrainer::Pack(const BatchRows& batch, const MiniBatch& mini, const MicroBatch& micro,
                                             std::vector<size_t>& rows) const {
  std::vector<PackedGroup> packed;
  for (const GroupPiece& piece : micro) {
    const BatchRows::Group& group = batch.groups[mini.groups[piece.group]];
    packed.push_back({.prompt = group.source->prompt_ids, .responses = {}});
    for (size_t i = piece.begin; i < piece.end; ++i) {
      rows.push_back(group.first_row + i);
      packed.back().responses.push_back(batch.rows[rows.back()].sample->response_ids);
    }
  }
  return packed;
}

// By the micro-batches of the update itself, so that its first ratio is exactly 1.
absl::Status PolicyTrainer::ScoreBeforehand(const BatchRows& batch, const std::vector<MiniBatch>& minis,
                                            StepState& state) {
  for (const MiniBatch& mini : minis) {
    for (const MicroBatch& micro : mini.micro_batches) {
      std::vector<size_t> rows;
      const std::vector<PackedGroup> packed = Pack(batch, mini, micro, rows);
      TROUPE_ASSIGN_OR_RETURN(const PackedScores scores, model_->Score(packed, {.temperature = options_.temperature}));
      Scatter(batch, rows, scores.logprobs, state.old_logprobs);
      for (size_t row : rows) state.scored[row] = 1;
    }
  }
  state.fixed_old = true;
  return absl::OkStatus();
}

// The gradient of one mini-batch, in gradients_.
absl::Status PolicyTrainer::Accumulate(const BatchRows& batch, const MiniBatch& mini, StepState& state,
                                       std::map<std::string, double>& shares) {
  if (mini.micro_batches.empty()) {
    const absl::Span<float> flat = FlatFloats(gradients_);
    std::fill(flat.begin(), flat.end(), 0.0f);
  }
  bool accumulate = false;
  for (const MicroBatch& micro : mini.micro_batches) {
    std::vector<size_t> rows;
    const std::vector<PackedGroup> packed = Pack(batch, mini, micro, rows);
    std::shared_ptr<PackedTape> tape;
    TROUPE_ASSIGN_OR_RETURN(const PackedScores scores,
                            model_->Forward(packed, {.temperature = options_.temperature, .entropy = true}, &tape));
    if (!state.fixed_old) {
      Scatter(batch, rows, scores.logprobs, state.old_logprobs);
      for (size_t row : rows) state.scored[row] = 1;
    }
    TROUPE_ASSIGN_OR_RETURN(const MicroBatchLoss loss,
                            ComputeMicroBatchLoss(batch,
                                                  {.rows = rows,
                                                   .logprobs = scores.logprobs,
                                                   .entropy = scores.entropy,
                                                   .old_logprobs = state.old_logprobs,
                                                   .advantages = state.advantages.advantages},
                                                  mini.counts, options_));
    model_->Backward(*tape, loss.d_logprobs, loss.d_entropy, accumulate, gradients_);
    for (const auto& [name, value] : loss.shares) shares[name] += value;
    accumulate = true;
  }
  return absl::OkStatus();
}

absl::Status PolicyTrainer::Optimize(const BatchRows& batch, const std::vector<MiniBatch>& minis, StepState& state,
                                     StepMetrics& metrics) {
  TROUPE_ASSIGN_OR_RETURN(const double factor,
                          LearningRateFactor({.lr_scheduler_type = options_.optim.lr_scheduler_type,
                                              .num_warmup_steps = options_.optim.lr_warmup_steps,
                                              .num_training_steps = options_.total_steps,
                                              .num_cycles = options_.optim.num_cycles,
                                              .min_lr_ratio = options_.optim.min_lr_ratio},
                                             step_));
  const double lr = options_.optim.lr * factor;
  std::map<std::string, double> shares;
  double norms = 0, tokens = 0, scored_tokens = 0;
  int64_t updates = 0;
  for (int64_t epoch = 0; epoch < options_.ppo_epochs; ++epoch) {
    for (const MiniBatch& mini : minis) {
      TROUPE_RETURN_IF_ERROR(Accumulate(batch, mini, state, shares));
      const OptimizerStepResult result = optimizer_.Step(options_.optim, lr, gradients_, weights_);
      norms += result.grad_norm;
      tokens += mini.counts.tokens;
      for (size_t g : mini.groups) {
        MiniBatchCounts scored;
        Count(batch, batch.groups[g], scored);
        scored_tokens += scored.tokens;
      }
      ++updates;
      metrics.skipped_updates += result.skipped ? 1 : 0;
    }
  }
  for (const auto& [name, value] : shares) metrics.values[name] = value / static_cast<double>(updates);
  for (const char* name : {"actor/entropy", "actor/ppo_kl"}) {  // means over the tokens of groups that had passes
    if (const auto found = metrics.values.find(name); found != metrics.values.end() && scored_tokens > 0) {
      found->second *= tokens / scored_tokens;
    }
  }
  if (updates > 0) metrics.values["actor/grad_norm"] = norms / static_cast<double>(updates);
  metrics.values["actor/lr"] = lr;
  return absl::OkStatus();
}

absl::StatusOr<StepMetrics> PolicyTrainer::Step(const TrainBatch& batch_given) {
  TROUPE_ASSIGN_OR_RETURN(const BatchRows batch, SelectRows(batch_given, config_, options_));
  StepMetrics metrics;
  metrics.dropped_rows = batch.dropped_rows;
  StepState state;
  state.old_logprobs.resize(static_cast<size_t>(batch.tokens));
  state.scored.resize(batch.rows.size());
  const bool kl_in_reward = reward_kl_.kl_coef != 0;
  if (kl_in_reward) {  // the reward needs every row's log-probabilities
    state.advantages.advantages.assign(static_cast<size_t>(batch.tokens), 1.0f);
    TROUPE_ASSIGN_OR_RETURN(const std::vector<MiniBatch> all, CutMiniBatches(batch, state));
    TROUPE_RETURN_IF_ERROR(ScoreBeforehand(batch, all, state));
  }
  TROUPE_ASSIGN_OR_RETURN(state.advantages,
                          ComputeBatchAdvantages(batch, options_, state.old_logprobs, reward_kl_.kl_coef));
  TROUPE_ASSIGN_OR_RETURN(const std::vector<MiniBatch> minis, CutMiniBatches(batch, state));
  if (!state.fixed_old && options_.ppo_epochs * static_cast<int64_t>(minis.size()) > 1) {
    TROUPE_RETURN_IF_ERROR(ScoreBeforehand(batch, minis, state));
  }
  TROUPE_RETURN_IF_ERROR(Optimize(batch, minis, state, metrics));

  AddBatchMetrics(batch, state.advantages, step_, metrics.values);
  AddRolloutMetrics(batch, state.old_logprobs, state.scored, options_.rollout_is_threshold, metrics.values);
  if (options_.use_kl_loss) metrics.values["actor/kl_coef"] = options_.kl_loss_coef;
  if (kl_in_reward) {
    metrics.values["actor/reward_kl_penalty"] = state.advantages.reward_kl;
    metrics.values["actor/reward_kl_penalty_coeff"] = reward_kl_.kl_coef;
    if (options_.kl_ctrl.type == "adaptive") {
      reward_kl_.Update(state.advantages.reward_kl, static_cast<int64_t>(batch.rows.size()));
    }
  }
  metrics.step = ++step_;
  skipped_updates_ += metrics.skipped_updates;
  metrics.values["training/global_step"] = static_cast<double>(step_);
  metrics.values["training/dropped_rows"] = static_cast<double>(batch.dropped_rows.size());
  metrics.values["training/skipped_updates"] = static_cast<double>(skipped_updates_);
  return metrics;
}

absl::Status PolicyTrainer::SaveState(const std::string& dir) const {
  TROUPE_RETURN_IF_ERROR(optimizer_.Save(absl::StrCat(dir, "/", kOptimizerFile)));
  const nlohmann::json state = {{"format", 1},
                                {"global_step", step_},
                                {"optimizer_steps", optimizer_.steps()},
                                {"reward_kl_coef", reward_kl_.kl_coef},
                                {"skipped_updates", skipped_updates_}};
  return WriteFileAtomic(absl::StrCat(dir, "/", kStateFile), state.dump(2) + "\n");
}

absl::Status PolicyTrainer::Load(const std::string& dir) {
  const std::string state_path = absl::StrCat(dir, "/", kStateFile);
  TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(state_path, kStateBytesMax));
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"global_step", "optimizer_steps", "skipped_updates"}) {
    if (!state.is_object() || !state.contains(key) || !state[key].is_number_integer()) {
      return absl::InvalidArgumentError(absl::StrCat(state_path, " has no whole number \"", key, "\""));
    }
  }
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSource> source, ModelSource::Open(dir));
  TROUPE_ASSIGN_OR_RETURN(const ModelWeights loaded, LoadWeights(*source));
  if (loaded.bytes().size() != weights_.bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(dir, " holds another model than the job's"));
  }
  TROUPE_RETURN_IF_ERROR(optimizer_.Load(absl::StrCat(dir, "/", kOptimizerFile), state["optimizer_steps"]));
  std::memcpy(weights_.bytes().data(), loaded.bytes().data(), loaded.bytes().size());
  // A fixed one is the job's, which may be another now.
  const auto kl_coef = state.find("reward_kl_coef");
  if (options_.kl_ctrl.type == "adaptive" && kl_coef != state.end() && kl_coef->is_number()) {
    reward_kl_.kl_coef = kl_coef->get<double>();
  }
  step_ = state["global_step"];
  skipped_updates_ = state["skipped_updates"];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainerCore>> TrainerCore::Create(const ModelConfig& config, ModelWeights weights,
                                                                 const TrainerOptions& options) {
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<PackedModel> model, PackedModel::Create(config, weights));
  return std::make_unique<PolicyTrainer>(config, std::move(weights), options, std::move(model));
}

}  // namespace troupe
