// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "actors/algorithms/advantages.h"
#include "actors/algorithms/policy_loss.h"
#include "actors/trainer/core/objective.h"
#include "actors/trainer/job_options.h"

namespace troupe {
namespace {

absl::StatusOr<LoadedJob> JobWith(const std::string& assignment) {
  return LoadJobText(
      "name: a\nmodel: {path: /m}\ndata: {train: /t}\nroles: {reward: {function: exact_match}}\n"
      "trainer: {total_steps: 4}\n",
      "job.yaml", "/", {assignment});
}

}  // namespace

TEST_CASE("CheckOptions: numbers of a KL's controller with which it cannot count are refused", "[trainer]") {
  const auto taken = [](const KlControlOptions& control) {
    TrainerOptions options;
    options.kl_ctrl = control;
    return CheckOptions(options).ok();
  };
  CHECK(taken({}));
  CHECK(!taken({.type = "follow"}));
  CHECK(!taken({.kl_coef = -1}));
  CHECK(!taken({.horizon = 0}));
  CHECK(!taken({.target_kl = 0}));
}

TEST_CASE("CheckOptions: the trainer takes every name and value that the job file takes", "[trainer]") {
  std::vector<std::string> assignments = {"rollout.temperature=0",
                                          "rollout.temperature=0.5",
                                          "actor.optim.eps=0",
                                          "actor.optim.lr=0",
                                          "actor.clip_ratio_low=0.99",
                                          "actor.clip_ratio_low=1",
                                          "actor.clip_ratio_c=1",
                                          "actor.ppo_epochs=0",
                                          "algorithm.rollout_is_threshold=0",
                                          "actor.optim.betas=[0.9, 1]",
                                          "algorithm.use_kl_in_reward=true",
                                          "algorithm.kl_ctrl.kl_coef=-1",
                                          "algorithm.kl_ctrl.horizon=0",
                                          "algorithm.kl_ctrl.target_kl=0",
                                          "actor.policy_loss.loss_mode=gspo"};
  auto each = [&](const std::string& key, std::vector<std::string> words) {
    for (const std::string& word : words) assignments.push_back(key + "=" + word);
  };
  each("algorithm.adv_estimator", AdvantageRegistry::Get().Names());
  each("actor.policy_loss.loss_mode", PolicyLossRegistry::Get().Names());
  each("algorithm.rollout_is", {"auto", "none", "token", "sequence"});
  each("actor.loss_agg_mode",
       {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "seq-mean"});
  for (const char* key : {"actor.kl_loss_type", "algorithm.kl_penalty"})
    each(key, {"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k3+", "low_var_kl+", "k4"});
  each("algorithm.kl_ctrl.type", {"fixed", "adaptive", "follow"});
  each("actor.optim.lr_scheduler_type", {"constant", "constant_with_warmup", "linear", "cosine", "sqrt"});
  int taken = 0;
  for (const std::string& assignment : assignments) {
    CAPTURE(assignment);
    absl::StatusOr<LoadedJob> job = JobWith(assignment);
    // A value that the file refuses never reaches the trainer; a name that it refuses is not in the trainer's tables.
    if (job.ok()) CHECK(CheckOptions(TrainerOptionsOf(job->config)).ok());
    taken += job.ok() ? 1 : 0;
  }
  CHECK(taken == 45);
  for (const std::string& name : AdvantageRegistry::Get().Names()) {
    CAPTURE(name);
    bool possible = (*AdvantageRegistry::Get().Find(name))->spec.needs.empty();
    CHECK(JobWith("algorithm.adv_estimator=" + name).ok() == possible);
  }
  for (const std::string& name : PolicyLossRegistry::Get().Names())
    CHECK(JobWith("actor.policy_loss.loss_mode=" + name).ok());
}

}  // namespace troupe
