// SPDX-License-Identifier: Apache-2.0
// The table of the job file's keys: one line a key, with its name, member, meaning and bounds. A visitor walks it to
// read, write or explain a job. To add a key: a member in job_config.h and a line here, and then
// `bazel run //runtime/job:write_reference > docs/job-file.md`. Private to this folder. Pure functions.
//
// A visitor has Field(key, member, meaning, rule = {}) and Section(key, section), which goes on with VisitFields of the
// section. It sees the keys in the order in which they stand here.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "runtime/job/job_config.h"

namespace troupe::job_internal {

// Bounds of a number, both allowed, or the words a text may be (none: any text). Durations count seconds, Bytes bytes.
// A number is finite whatever its rule says.
struct Rule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  std::vector<std::string> words;
};
inline Rule Bounds(double min, double max, bool above_min) {
  Rule rule;
  rule.min = min;
  rule.max = max;
  rule.above_min = above_min;
  return rule;
}
inline Rule AtLeast(double min) { return Bounds(min, std::numeric_limits<double>::infinity(), false); }
inline Rule Above(double min) { return Bounds(min, std::numeric_limits<double>::infinity(), true); }
inline Rule Between(double min, double max) { return Bounds(min, max, false); }
inline Rule OneOf(std::vector<std::string> words) {
  Rule rule;
  rule.words = std::move(words);
  return rule;
}

// Mark how a member is written: text that is a path, resolved relative to the job file; bytes such as "4GiB"; free
// JSON. They refer to the member and own nothing.
struct PathText {
  std::string& value;
};
struct Bytes {
  int64_t& value;
};
struct JsonText {
  std::string& value;
};

template <typename V>
void VisitFields(V& v, ModelSection& c) {
  v.Field("path", PathText{c.path}, "a GGUF file or a Hugging Face folder");
  v.Field("init", c.init, "pretrained, or random weights for a folder with config and tokenizer only",
          OneOf({"pretrained", "random"}));
  v.Field("seed", c.seed, "seed of random weights", AtLeast(0));
}

template <typename V>
void VisitFields(V& v, DataSection& c) {
  v.Field("train", PathText{c.train}, "training prompts: JSON lines (also .gz, .zst)");
  v.Field("val", PathText{c.val}, "held-out prompts; empty: no validation");
  v.Field("prompt_key", c.prompt_key, "column of the prompt: text, or a list of {role, content}");
  v.Field("answer_key", c.answer_key, "column of the answer the reward compares with");
  v.Field("shuffle", c.shuffle, "each epoch a fresh permutation");
  v.Field("seed", c.seed, "seed of the permutations", AtLeast(0));
  v.Field("chat_template", c.chat_template, "Jinja text in place of the model's own template");
  v.Field("system_prompt", c.system_prompt, "put before prompts that are lists of messages");
  v.Field("max_prompt_length", c.max_prompt_length, "tokens; 0: what the context leaves", AtLeast(0));
  v.Field("filter_overlong_prompts", c.filter_overlong_prompts, "skip and count prompts that are too long");
  v.Field("truncation", c.truncation, "of prompts that are too long and not filtered",
          OneOf({"error", "left", "right"}));
}

template <typename V>
void VisitFields(V& v, ResourcesSection& c) {
  v.Field("cpu", c.cpu, "cores of one replica", AtLeast(0));
  v.Field("memory", Bytes{c.memory}, "memory of one replica; 0: not counted", AtLeast(0));
  v.Field("devices", c.devices, "whole devices of one replica", AtLeast(0));
  v.Field("device_kind", c.device_kind, "cuda, sim, ...; empty: any");
}

template <typename V>
void VisitFields(V& v, SchedulingSection& c) {
  v.Field("queue", c.queue, "where the job waits; troupe queues lists them");
  v.Field("priority", c.priority, "higher first within the queue", Between(-1000, 1000));
  v.Field("preemptible", c.preemptible, "may be sent back to its queue, after a checkpoint, for a higher priority");
  v.Field("after", c.after, "ids of jobs that must have succeeded first; ID:ended or ID:failed for another end");
  v.Field("time_limit", c.time_limit, "running longer it checkpoints and fails; 0: none", AtLeast(0));
  v.Field("expected_time", c.expected_time, "for backfill; 0: time_limit", AtLeast(0));
  v.Field("max_retries", c.max_retries, "times that the job is queued again when it failed", Between(0, 1000));
}

template <typename V>
void VisitFields(V& v, RestartSection& c) {
  v.Field("max", c.max, "restarts of a replica within the window before the job fails", AtLeast(0));
  v.Field("window", c.window, "over which restarts are counted", Above(0));
  v.Field("backoff_initial", c.backoff_initial, "pause before the first restart; doubles", AtLeast(0));
  v.Field("backoff_max", c.backoff_max, "longest pause", AtLeast(0));
}

template <typename V>
void VisitFields(V& v, RoleSection& c) {
  v.Field("replicas", c.replicas, "processes of this role", Between(1, 4096));
  v.Section("resources", c.resources);
  v.Section("restart", c.restart);
  v.Field("policy", c.policy,
          "when a replica fails: it alone is replaced, all of the group start anew, or (elastic) the job goes on with "
          "fewer and grows again; empty: all_for_one of the trainer, else one_for_one",
          OneOf({"", "one_for_one", "all_for_one", "elastic"}));
  v.Field("group", c.group, "roles with the same name stand and fall together; empty: the role alone");
  v.Field("min_replicas", c.min_replicas,
          "troupe scale and elastic roles go down to it; 0: replicas if elastic, else 1", Between(0, 4096));
  v.Field("max_replicas", c.max_replicas, "they go up to it; 0: replicas if elastic, else no limit", Between(0, 4096));
  v.Field("class", c.class_name, "actor class in the worker binary; empty: the built-in one of the role");
  v.Field("args", JsonText{c.args_json}, "constructor arguments of the class");
  v.Field("worker_binary", PathText{c.worker_binary}, "program that hosts the role; empty: troupe_worker");
}

template <typename V>
void VisitFields(V& v, RewardFunction& c) {
  v.Field("name", c.name, "name in metrics");
  v.Field("weight", c.weight, "factor in the sum of rewards");
  v.Field("function", c.function, "built-in verifier", OneOf({"", "exact_match", "regex", "numeric"}));
  v.Field("pattern", c.pattern, "regular expression (PCRE2) of function regex");
  v.Field("match", c.match, "which match or number is compared with the answer", OneOf({"first", "last"}));
  v.Field("python", c.python, "FILE.py:FUNCTION, verl's compute_score or TRL's reward function");
  v.Field("command", c.command, "a program that answers JSON lines");
  v.Field("working_dir", PathText{c.working_dir}, "folder that python and command run in; empty: the job file's");
  v.Field("timeout", c.timeout, "of one answer; beyond it the score is 0 and counted", Above(0));
  v.Field("workers", c.workers, "processes of a python or command function", Between(1, 256));
  v.Field("max_crashes", c.max_crashes, "crashes and hangs in a row, without one answer, before the job fails",
          AtLeast(1));
}

// The estimators of a KL.
inline Rule KlKind() { return OneOf({"k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl", "k3+", "low_var_kl+"}); }

template <typename V>
void VisitFields(V& v, KlControlSection& c) {
  v.Field("type", c.type, "of its coefficient", OneOf({"fixed", "adaptive"}));
  v.Field("kl_coef", c.kl_coef, "the coefficient, or the first one", AtLeast(0));
  v.Field("horizon", c.horizon, "adaptive: rows over which it changes", Above(0));
  v.Field("target_kl", c.target_kl, "adaptive: the KL it aims at", Above(0));
}

template <typename V>
void VisitFields(V& v, AlgorithmSection& c) {
  // Those of actors/algorithms that need no column which no role of a job makes.
  v.Field("adv_estimator", c.adv_estimator, "advantage estimator",
          OneOf({"grpo", "grpo_passk", "gpg", "opo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "rloo",
                 "rloo_vectorized"}));
  v.Field("adv_epsilon", c.adv_epsilon, "added to the deviation", AtLeast(0));
  v.Field("norm_adv_by_std_in_grpo", c.norm_adv_by_std_in_grpo, "false: Dr. GRPO");
  v.Field("scale_rewards", c.scale_rewards, "deviation over", OneOf({"group", "batch", "none"}));
  v.Field("max_staleness", c.max_staleness, "steps a row may be older than the policy; 0: on-policy", AtLeast(0));
  v.Field("stale", c.stale, "rows over max_staleness are", OneOf({"drop", "train"}));
  v.Field("rollout_is", c.rollout_is, "importance weights for stale rows; auto: token when max_staleness >= 1",
          OneOf({"auto", "none", "token"}));
  v.Field("rollout_is_threshold", c.rollout_is_threshold, "weights are cut off here", Above(0));
  v.Field("use_kl_in_reward", c.use_kl_in_reward, "take the KL to the reference off the rewards");
  v.Field("kl_penalty", c.kl_penalty, "its estimator", KlKind());
  v.Section("kl_ctrl", c.kl_ctrl);
}

template <typename V>
void VisitFields(V& v, RolloutSection& c) {
  v.Field("n", c.n, "samples of a prompt", Between(1, 65536));
  v.Field("temperature", c.temperature, "logits are divided by it, by the trainer too", Above(0));
  v.Field("top_k", c.top_k, "0: off", AtLeast(0));
  v.Field("top_p", c.top_p, "1: off", Between(0, 1));
  v.Field("min_p", c.min_p, "least probability, as a part of the likeliest token's; 0: off", Between(0, 1));
  v.Field("response_length", c.response_length, "most new tokens", AtLeast(1));
  v.Field("seed", c.seed, "of the samples", AtLeast(0));
  v.Field("on_update", c.on_update, "unfinished samples when new weights arrive",
          OneOf({"recompute", "keep_kv", "finish"}));
  v.Field("max_num_seqs", c.max_num_seqs, "sequences decoded together", AtLeast(1));
  v.Field("max_num_batched_tokens", c.max_num_batched_tokens, "tokens of one engine step", AtLeast(1));
  v.Field("kv_cache_memory", Bytes{c.kv_cache_memory}, "of keys and values", AtLeast(1 << 20));
  v.Field("ignore_eos", c.ignore_eos, "go on after an end-of-sequence id");
}

template <typename V>
void VisitFields(V& v, OptimSection& c) {
  v.Field("lr", c.lr, "learning rate", AtLeast(0));
  v.Field("betas", c.betas, "of AdamW");
  v.Field("eps", c.eps, "of AdamW", Above(0));
  v.Field("weight_decay", c.weight_decay, "decoupled", AtLeast(0));
  v.Field("clip_grad", c.clip_grad, "largest global gradient norm; 0: off", AtLeast(0));
  v.Field("lr_scheduler_type", c.lr_scheduler_type, "schedule",
          OneOf({"constant", "constant_with_warmup", "linear", "cosine"}));
  v.Field("lr_warmup_steps", c.lr_warmup_steps, "linear warm-up", AtLeast(0));
  v.Field("min_lr_ratio", c.min_lr_ratio, "end of a decay, relative to lr", Between(0, 1));
}

template <typename V>
void VisitFields(V& v, PolicyLossSection& c) {
  v.Field("loss_mode", c.loss_mode, "policy loss", OneOf({"vanilla"}));
}

template <typename V>
void VisitFields(V& v, ActorSection& c) {
  v.Field("use_kl_loss", c.use_kl_loss, "add a KL term to the loss");
  v.Field("kl_loss_coef", c.kl_loss_coef, "its coefficient", AtLeast(0));
  v.Field("kl_loss_type", c.kl_loss_type, "its estimator", KlKind());
  v.Field("entropy_coeff", c.entropy_coeff, "of the entropy bonus");
  v.Section("optim", c.optim);
  v.Field("ppo_epochs", c.ppo_epochs, "passes over a batch", AtLeast(1));
  v.Field("ppo_mini_batch_size", c.ppo_mini_batch_size, "prompts of one optimizer step; 0: the batch", AtLeast(0));
  v.Field("ppo_max_token_len", c.ppo_max_token_len, "tokens of a micro-batch", AtLeast(1));
  v.Field("loss_agg_mode", c.loss_agg_mode, "how token losses are summed",
          OneOf({"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}));
  v.Field("loss_scale_factor", c.loss_scale_factor, "of seq-mean-token-sum-norm; 0: the padded width", AtLeast(0));
  v.Field("clip_ratio_low", c.clip_ratio_low, "1 - low", AtLeast(0));
  v.Field("clip_ratio_high", c.clip_ratio_high, "1 + high", AtLeast(0));
  v.Field("clip_ratio_c", c.clip_ratio_c, "dual clip", Above(1));
  v.Section("policy_loss", c.policy_loss);
}

template <typename V>
void VisitFields(V& v, TrainerSection& c) {
  v.Field("total_steps", c.total_steps, "optimizer steps of the job", AtLeast(0));
  v.Field("train_batch_size", c.train_batch_size, "prompts of a step", AtLeast(1));
  v.Field("save_freq", c.save_freq, "steps between checkpoints; 0: only at the end", AtLeast(0));
  v.Field("max_checkpoints", c.max_checkpoints, "kept", AtLeast(1));
  v.Field("test_freq", c.test_freq, "steps between validations; 0: never", AtLeast(0));
  v.Field("val_before_train", c.val_before_train, "validate before the first step");
  v.Field("val_n", c.val_n, "sampled answers of a validation prompt", AtLeast(1));
  v.Field("resume", c.resume, "auto, never, or a checkpoint or run folder");
  v.Field("logger", c.logger, "console, jsonl, tensorboard");
  v.Field("output_dir", PathText{c.output_dir}, "the run's folder; empty: runs/{name}/{time}");
}

}  // namespace troupe::job_internal
