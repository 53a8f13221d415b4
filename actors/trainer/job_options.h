// SPDX-License-Identifier: Apache-2.0
// From the job file's sections to what TrainerCore takes.
#pragma once

#include "actors/trainer/core/trainer_options.h"
#include "runtime/job/job_config.h"

namespace troupe {

// `config`: of a job that trains, as LoadJobText checked it. Keys have the names of the options; use_kl_loss and
// use_kl_in_reward are false when their coefficient is 0, since then there is perhaps no reference model.
inline TrainerOptions TrainerOptionsOf(const JobConfig& config) {
  TrainerOptions options;
  options.adv_estimator = config.algorithm.adv_estimator;
  options.adv_epsilon = config.algorithm.adv_epsilon;
  options.norm_adv_by_std_in_grpo = config.algorithm.norm_adv_by_std_in_grpo;
  options.scale_rewards = config.algorithm.scale_rewards;
  options.max_staleness = config.algorithm.max_staleness;
  options.rollout_is = config.algorithm.rollout_is;
  options.rollout_is_threshold = config.algorithm.rollout_is_threshold;
  options.use_kl_in_reward = config.has_kl_in_reward();
  options.kl_penalty = config.algorithm.kl_penalty;
  const KlControlSection& control = config.algorithm.kl_ctrl;
  options.kl_ctrl = {control.type, control.kl_coef, control.horizon, control.target_kl};
  options.loss_mode = config.actor.policy_loss.loss_mode;
  options.clip_ratio_low = config.actor.clip_ratio_low;
  options.clip_ratio_high = config.actor.clip_ratio_high;
  options.clip_ratio_c = config.actor.clip_ratio_c;
  options.loss_agg_mode = config.actor.loss_agg_mode;
  options.loss_scale_factor = config.actor.loss_scale_factor;
  options.entropy_coeff = config.actor.entropy_coeff;
  options.use_kl_loss = config.has_kl_loss();
  options.kl_loss_coef = config.actor.kl_loss_coef;
  options.kl_loss_type = config.actor.kl_loss_type;
  options.ppo_epochs = config.actor.ppo_epochs;
  options.ppo_mini_batch_size = config.actor.ppo_mini_batch_size;
  options.ppo_max_token_len = config.actor.ppo_max_token_len;
  options.optim.lr = config.actor.optim.lr;
  if (config.actor.optim.betas.size() == 2)
    options.optim.betas = {config.actor.optim.betas[0], config.actor.optim.betas[1]};
  options.optim.eps = config.actor.optim.eps;
  options.optim.weight_decay = config.actor.optim.weight_decay;
  options.optim.clip_grad = config.actor.optim.clip_grad;
  options.optim.lr_scheduler_type = config.actor.optim.lr_scheduler_type;
  options.optim.lr_warmup_steps = config.actor.optim.lr_warmup_steps;
  options.optim.min_lr_ratio = config.actor.optim.min_lr_ratio;
  options.temperature = config.rollout.temperature;
  options.total_steps = config.trainer.total_steps;
  return options;
}

}  // namespace troupe
