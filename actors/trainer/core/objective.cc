// SPDX-License-Identifier: Apache-2.0
#include "actors/trainer/core/objective.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/algorithms/advantages.h"
#include "actors/algorithms/kl.h"
#include "actors/algorithms/masked.h"
#include "actors/algorithms/policy_loss.h"
#include "actors/trainer/core/schedule.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr double kLogRatioMax = 20;

std::map<std::string, OptionValue> AlgorithmOptions(const TrainerOptions& options) {
  return {{"adv_epsilon", options.adv_epsilon},       {"norm_adv_by_std_in_grpo", options.norm_adv_by_std_in_grpo},
          {"scale_rewards", options.scale_rewards},   {"gamma", options.gamma},
          {"clip_ratio_low", options.clip_ratio_low}, {"clip_ratio_high", options.clip_ratio_high},
          {"clip_ratio_c", options.clip_ratio_c}};
}

// Flat or consecutive values of some rows <-> a padded [rows, width] tensor.
class Padding {
 public:
  Padding(const BatchRows& batch, std::vector<size_t> rows) : batch_(batch), rows_(std::move(rows)) {
    for (size_t row : rows_) width_ = std::max(width_, batch_.rows[row].length);
  }

  int64_t height() const { return static_cast<int64_t>(rows_.size()); }

  // of(row): the first of the row's values.
  template <class Of>
  at::Tensor Tensor(at::ScalarType type, Of of) const {
    at::Tensor padded = at::zeros({height(), width_}, at::kFloat);
    float* out = padded.mutable_data_ptr<float>();
    for (size_t i = 0; i < rows_.size(); ++i) {
      const float* values = of(batch_.rows[rows_[i]]);
      std::copy_n(values, batch_.rows[rows_[i]].length, out + static_cast<int64_t>(i) * width_);
    }
    return padded.to(type);
  }

  at::Tensor Flat(absl::Span<const float> column) const {
    return Tensor(at::kFloat, [&](const BatchRows::Row& row) { return column.data() + row.begin; });
  }

  at::Tensor Consecutive(absl::Span<const float> values) const {
    const float* next = values.data();
    return Tensor(at::kFloat, [&](const BatchRows::Row& row) { return std::exchange(next, next + row.length); });
  }

  at::Tensor Mask(at::ScalarType type) const {
    at::Tensor mask = at::zeros({height(), width_}, at::kFloat);
    float* out = mask.mutable_data_ptr<float>();
    for (size_t i = 0; i < rows_.size(); ++i) {
      const BatchRows::Row& row = batch_.rows[rows_[i]];
      const std::vector<uint8_t>& given = row.sample->response_mask;
      for (int64_t t = 0; t < row.length; ++t) {
        out[static_cast<int64_t>(i) * width_ + t] = given.empty() || given[static_cast<size_t>(t)] != 0 ? 1.0f : 0.0f;
      }
    }
    return mask.to(type);
  }

  std::vector<float> Unpad(const at::Tensor& padded) const {
    const at::Tensor values = padded.to(at::kFloat).contiguous();
    const float* in = values.const_data_ptr<float>();
    std::vector<float> result;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const float* row = in + static_cast<int64_t>(i) * width_;
      result.insert(result.end(), row, row + batch_.rows[rows_[i]].length);
    }
    return result;
  }

 private:
  const BatchRows& batch_;
  std::vector<size_t> rows_;
  int64_t width_ = 0;
};

std::vector<size_t> AllRows(const BatchRows& batch) {
  std::vector<size_t> rows(batch.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

// Truncated importance weights of the proximal policy over the engine's; no gradient.
at::Tensor RolloutWeights(const at::Tensor& old_logprobs, const at::Tensor& rollout_logprobs, double threshold) {
  return (old_logprobs - rollout_logprobs).clamp(-kLogRatioMax, kLogRatioMax).exp().clamp_max(threshold);
}

double Share(const at::Tensor& values, const at::Tensor& mask, double tokens) {
  return tokens > 0 ? MaskedSum(values.detach(), mask).item<double>() / tokens : 0;
}

}  // namespace

absl::Status CheckOptions(const TrainerOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const AdvantageRegistry::Entry* const estimator,
                          AdvantageRegistry::Get().Find(options.adv_estimator));
  if (!estimator->spec.needs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("adv_estimator ", options.adv_estimator, " needs ",
                                                   estimator->spec.needs[0],
                                                   ", which no role of a job makes; choose grpo, for example"));
  }
  TROUPE_RETURN_IF_ERROR(PolicyLossRegistry::Get().Find(options.loss_mode).status());
  TROUPE_RETURN_IF_ERROR(CheckLossAggMode(options.loss_agg_mode));
  TROUPE_RETURN_IF_ERROR(CheckKlKind(options.kl_loss_type));
  TROUPE_RETURN_IF_ERROR(CheckKlKind(options.kl_penalty));
  TROUPE_RETURN_IF_ERROR(LearningRateFactor({.lr_scheduler_type = options.optim.lr_scheduler_type,
                                             .num_warmup_steps = options.optim.lr_warmup_steps,
                                             .num_training_steps = options.total_steps,
                                             .num_cycles = options.optim.num_cycles},
                                            0)
                             .status());
  const std::vector<std::string> rollout_is = {"auto", "none", "token"};
  if (std::find(rollout_is.begin(), rollout_is.end(), options.rollout_is) == rollout_is.end()) {
    return UnknownName("rollout_is", options.rollout_is, rollout_is);
  }
  const auto require = [](bool good, const char* message) {
    return good ? absl::OkStatus() : absl::InvalidArgumentError(message);
  };
  const auto is_beta = [](double beta) { return beta >= 0 && beta < 1; };
  const KlControlOptions& control = options.kl_ctrl;
  TROUPE_RETURN_IF_ERROR(
      require(control.type == "fixed" || control.type == "adaptive", "kl_ctrl.type must be fixed or adaptive"));
  TROUPE_RETURN_IF_ERROR(require(control.kl_coef >= 0 && control.horizon > 0 && control.target_kl > 0,
                                 "kl_ctrl.kl_coef must not be negative, its horizon and target_kl greater than 0"));
  TROUPE_RETURN_IF_ERROR(require(options.temperature > 0, "rollout.temperature must be greater than 0 to train"));
  TROUPE_RETURN_IF_ERROR(require(options.optim.lr >= 0, "optim.lr must not be negative"));
  TROUPE_RETURN_IF_ERROR(require(options.optim.eps > 0, "optim.eps must be greater than 0"));
  TROUPE_RETURN_IF_ERROR(
      require(is_beta(options.optim.betas[0]) && is_beta(options.optim.betas[1]), "optim.betas must lie in [0, 1)"));
  TROUPE_RETURN_IF_ERROR(require(options.clip_ratio_c > 1, "clip_ratio_c must be greater than 1"));
  TROUPE_RETURN_IF_ERROR(
      require(options.clip_ratio_low >= 0 && options.clip_ratio_low < 1 && options.clip_ratio_high >= 0,
              "clip_ratio_low must lie in [0, 1) and clip_ratio_high must not be negative"));
  TROUPE_RETURN_IF_ERROR(require(options.ppo_epochs >= 1, "ppo_epochs must be at least 1"));
  TROUPE_RETURN_IF_ERROR(require(options.ppo_mini_batch_size >= 0, "ppo_mini_batch_size must not be negative"));
  TROUPE_RETURN_IF_ERROR(require(options.ppo_max_token_len >= 1, "ppo_max_token_len must be at least 1"));
  return require(options.rollout_is_threshold > 0, "rollout_is_threshold must be greater than 0");
}

absl::StatusOr<BatchAdvantages> ComputeBatchAdvantages(const BatchRows& batch, const TrainerOptions& options,
                                                       absl::Span<const float> old_logprobs, double reward_kl_coef) {
  BatchAdvantages result;
  if (batch.rows.empty()) return result;
  const Padding padding(batch, AllRows(batch));
  AdvantageInputs inputs;
  inputs.response_mask = padding.Mask(at::kDouble);
  inputs.token_level_rewards = at::zeros_like(inputs.response_mask);
  inputs.index = at::empty({padding.height()}, at::kLong);
  double* rewards = inputs.token_level_rewards.mutable_data_ptr<double>();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRows::Row& row = batch.rows[i];
    rewards[static_cast<int64_t>(i) * inputs.response_mask.size(1) + row.length - 1] = row.sample->reward;
    inputs.index.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(row.group);
  }
  if (reward_kl_coef != 0) {
    const at::Tensor reference =
        padding.Tensor(at::kDouble, [](const BatchRows::Row& row) { return row.sample->ref_logprobs.data(); });
    TROUPE_ASSIGN_OR_RETURN(KlInReward penalised,
                            ApplyKlPenalty(inputs.token_level_rewards, padding.Flat(old_logprobs).to(at::kDouble),
                                           reference, inputs.response_mask, reward_kl_coef, options.kl_penalty));
    inputs.token_level_rewards = penalised.token_level_rewards;
    result.reward_kl = penalised.mean_kl;
  }
  TROUPE_ASSIGN_OR_RETURN(Advantages advantages,
                          ComputeAdvantages(options.adv_estimator, inputs, AlgorithmOptions(options)));
  result.advantages = padding.Unpad(advantages.advantages);
  const at::Tensor sums = inputs.token_level_rewards.sum(-1).contiguous();
  result.rewards.assign(sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel());
  return result;
}

absl::StatusOr<MicroBatchLoss> ComputeMicroBatchLoss(const BatchRows& batch, const MicroBatchColumns& columns,
                                                     const MiniBatchCounts& counts, const TrainerOptions& options) {
  const Padding padding(batch, columns.rows);
  PolicyLossInputs inputs;
  inputs.log_prob = padding.Consecutive(columns.logprobs).requires_grad_(true);
  const at::Tensor entropy = padding.Consecutive(columns.entropy).requires_grad_(options.entropy_coeff != 0);
  inputs.old_log_prob =
      columns.old_logprobs.empty() ? inputs.log_prob.detach().clone() : padding.Flat(columns.old_logprobs);
  inputs.advantages = padding.Flat(columns.advantages);
  inputs.response_mask = padding.Mask(at::kFloat);
  inputs.aggregation = {.loss_agg_mode = options.loss_agg_mode,
                        .batch_num_tokens = counts.tokens,
                        .global_batch_size = counts.rows,
                        .loss_scale_factor = options.loss_scale_factor > 0 ? options.loss_scale_factor : counts.width};
  if (NeedsRolloutLogprobs(options)) {
    const at::Tensor rollout =
        padding.Tensor(at::kFloat, [](const BatchRows::Row& row) { return row.sample->rollout_logprobs.data(); });
    inputs.rollout_is_weights = RolloutWeights(inputs.old_log_prob, rollout, options.rollout_is_threshold);
  }
  TROUPE_ASSIGN_OR_RETURN(PolicyLoss policy, ComputePolicyLoss(options.loss_mode, inputs, AlgorithmOptions(options)));
  MicroBatchLoss result;
  const double share = counts.tokens > 0 ? inputs.response_mask.sum().item<double>() / counts.tokens : 0;
  for (const auto& [name, value] : policy.metrics) result.shares[name] = value * share;
  result.shares["actor/pg_loss"] = policy.loss.item<double>();
  result.shares["actor/entropy"] = Share(entropy, inputs.response_mask, counts.tokens);

  at::Tensor loss = policy.loss;
  if (options.entropy_coeff != 0) {
    TROUPE_ASSIGN_OR_RETURN(const at::Tensor bonus, AggregateLoss(entropy, inputs.response_mask, inputs.aggregation));
    loss = loss - bonus * options.entropy_coeff;
  }
  if (options.use_kl_loss && options.kl_loss_coef != 0) {
    const at::Tensor given =
        padding.Tensor(at::kFloat, [](const BatchRows::Row& row) { return row.sample->ref_logprobs.data(); });
    const at::Tensor reference = ZeroOutside(given, inputs.response_mask);
    TROUPE_ASSIGN_OR_RETURN(const at::Tensor kl, KlPenalty(inputs.log_prob, reference, options.kl_loss_type));
    TROUPE_ASSIGN_OR_RETURN(const at::Tensor kl_loss, AggregateLoss(kl, inputs.response_mask, inputs.aggregation));
    loss = loss + kl_loss * options.kl_loss_coef;
    result.shares["actor/kl_loss"] = kl_loss.item<double>();
  }
  loss.backward();
  result.d_logprobs = padding.Unpad(inputs.log_prob.grad());
  if (options.entropy_coeff != 0) result.d_entropy = padding.Unpad(entropy.grad());
  return result;
}

}  // namespace troupe
