// SPDX-License-Identifier: Apache-2.0
// The RL pipeline of a training job, from top to bottom. Every arrow is a call of the controller's to a role actor
// (role_calls.h); rows and weights go directly between the roles.
//
//   1. Prompts (pipeline_rollouts.cc). PromptOrder deals them: each epoch a fresh seeded order. The credits of RowIndex
//      say how many may be out: (max_staleness + version + 1) * batch less what is trained or waits.
//   2. Rows (actors/rollout). Rollout.Generate makes `n` samples of each and appends them, as rows, to its shard.
//   3. Columns (pipeline_scoring.cc). Reward.Score and Reference.AddLogProbs lease rows, fetch them from the shards,
//   and
//      add their columns.
//   4. Steps (pipeline_trainer.cc). When the next `train_batch_size` groups, strictly in order, have every column, they
//      are leased to the trainer: Trainer.TrainStep fetches them, computes advantages, loss and update, and publishes
//      version v + 1.
//   5. Weights (pipeline_rollouts.cc). Rollout.UpdateWeights maps the version while the old one serves, and commits it
//      between two engine steps. A rollout gets no prompt that its weights are too old for.
//   6. Validation (pipeline_validation.cc). Each test_freq steps the held-out prompts are answered and scored.
//   7. Checkpoints (pipeline_checkpoint.cc). Each save_freq steps: one cut of trainer, queue and controller; the rename
//      of its manifest is the commit, and only then are trained rows acknowledged and released.
//
// To replace a role, register an actor class with the same methods in a program of your own and name both in the job
// file (`roles.reward.class`, `roles.reward.worker_binary`): examples/custom_reward.
// A role of another kind (an Environment between 2 and 3, a Critic beside 3) is a scorer: a column in
// PipelineOptions::IndexOptions and a call like Reward's.
#pragma once

#include <string>

#include "actors/data/prompt_set.h"
#include "actors/pipeline/pipeline_options.h"
#include "actors/pipeline/prompt_order.h"
#include "runtime/job/job_config.h"

namespace troupe {

inline PipelineOptions PipelineOptionsOf(const JobConfig& config, const PromptSet& val, std::string checkpoints_dir) {
  PipelineOptions options;
  auto replicas = [&](const char* role) {
    auto it = config.roles.find(role);
    return it == config.roles.end() ? 1 : it->second.replicas;
  };
  options.train_batch_size = config.trainer.train_batch_size;
  options.samples = config.rollout.n;
  options.max_staleness = config.algorithm.max_staleness;
  options.train_stale = config.algorithm.stale == "train";
  options.max_dropped_fraction = config.reward.max_dropped_fraction;
  options.rollout_replicas = replicas("rollout");
  options.reward_replicas = config.reward.role.replicas;
  options.reference_replicas = config.needs_reference() ? replicas("reference") : 0;
  options.total_steps = config.trainer.total_steps;
  options.save_freq = config.trainer.save_freq;
  options.test_freq = config.trainer.test_freq;
  options.val_before_train = config.trainer.val_before_train;
  options.val_samples = config.trainer.val_n;
  for (const Prompt& prompt : val.prompts()) options.val_prompts.push_back(prompt.id);
  options.checkpoints_dir = std::move(checkpoints_dir);
  return options;
}

inline PromptOrder PromptOrderOf(const JobConfig& config, const PromptSet& train) {
  std::vector<uint64_t> ids;
  for (const Prompt& prompt : train.prompts()) ids.push_back(prompt.id);
  return PromptOrder(std::move(ids), config.data.shuffle, config.data.seed);
}

}  // namespace troupe
