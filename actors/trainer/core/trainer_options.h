// SPDX-License-Identifier: Apache-2.0
// TrainerOptions: what of a job file decides the trainer's arithmetic. Names are the job file's, in sections
// `algorithm`, `actor`, `actor.optim` and `rollout`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace troupe {

// actor.optim
struct OptimOptions {
  double lr = 1e-6;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  double clip_grad = 1.0;                      // largest global L2 norm of a step's gradient; 0 or less: no clipping
  std::string lr_scheduler_type = "constant";  // constant, constant_with_warmup, linear, cosine (schedule.h)
  int64_t lr_warmup_steps = 0;
  double min_lr_ratio = 0;  // of linear and cosine
  double num_cycles = 0.5;  // cosine only
};

// algorithm.kl_ctrl
struct KlControlOptions {
  std::string type = "fixed";  // fixed, adaptive: follows target_kl (actors/algorithms/adaptive_kl.h)
  double kl_coef = 0.001;      // the first one, if adaptive; 0: no KL in the reward
  double horizon = 10000;
  double target_kl = 0.1;
};

struct TrainerOptions {
  // algorithm
  std::string adv_estimator = "grpo";
  double adv_epsilon = 1e-6;
  bool norm_adv_by_std_in_grpo = true;
  std::string scale_rewards = "group";  // group, batch, none: over what grpo's deviation is taken
  double gamma = 1.0;                   // discount a token, of estimators that have one
  int64_t max_staleness = 0;
  std::string rollout_is = "auto";  // none, token, auto: token if max_staleness >= 1
  double rollout_is_threshold = 2;  // importance weights are truncated here
  bool use_kl_in_reward = false;
  std::string kl_penalty = "kl";  // estimator of the KL in the reward
  KlControlOptions kl_ctrl;       // its coefficient

  // actor
  std::string loss_mode = "vanilla";
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.2;
  double clip_ratio_c = 3.0;
  std::string loss_agg_mode = "token-mean";
  double loss_scale_factor = 0;  // of seq-mean-token-sum-norm; 0: the longest response of the mini-batch
  double entropy_coeff = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "low_var_kl";
  int64_t ppo_epochs = 1;
  int64_t ppo_mini_batch_size = 0;   // prompts of one optimizer step; 0: all of the batch
  int64_t ppo_max_token_len = 4096;  // most tokens of one micro-batch, a prompt counted once for its group
  OptimOptions optim;

  // rollout, trainer
  double temperature = 1.0;       // logits are divided by it, on every side
  int64_t total_steps = 0;        // length of the schedules
  bool skip_equal_groups = true;  // leave out the passes of groups that cannot have a gradient (DESIGN.md)
};

}  // namespace troupe
