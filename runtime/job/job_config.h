// SPDX-License-Identifier: Apache-2.0
// JobConfig: a job file, typed, every default filled in. The one place that knows the keys (job_fields.h), their
// defaults and their checks; the scheduler sees only the v1::JobSpec made from it, workers read it back from JSON.
//
// Names are those of verl, TRL and Hugging Face; what each key means and may be stands in job_fields.h, from which
// docs/job-file.md is made. Batch sizes count prompts, lengths count tokens. Plain values: copy freely.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "troupe/v1/head.pb.h"

namespace troupe {

struct ModelSection {
  std::string path;                 // A GGUF file or a Hugging Face folder.
  std::string init = "pretrained";  // pretrained | random: a folder with config.json and tokenizer.json, no weights
  int64_t seed = 1;                 // Of random weights.
};

struct DataSection {
  std::string train;
  std::string val;  // "": no validation.
  std::string prompt_key = "prompt";
  std::string answer_key = "answer";
  bool shuffle = true;
  int64_t seed = 1;
  std::string chat_template;  // "": the model's own. Only for prompts that are lists of messages.
  std::string system_prompt;
  int64_t max_prompt_length = 0;  // Tokens; 0: the context less response_length.
  bool filter_overlong_prompts = true;
  std::string truncation = "error";  // error | left | right: when not filtered
};

struct ResourcesSection {
  double cpu = 1;
  int64_t memory = 0;  // Bytes; 0: not counted.
  int64_t devices = 0;
  std::string device_kind;
};

struct RestartSection {
  int64_t max = 5;
  absl::Duration window = absl::Minutes(10);
  absl::Duration backoff_initial = absl::Milliseconds(100);
  absl::Duration backoff_max = absl::Seconds(10);
};

// What every role has.
struct RoleSection {
  int64_t replicas = 1;
  ResourcesSection resources;
  RestartSection restart;
  std::string policy;        // one_for_one | all_for_one | elastic; "": all_for_one of the trainer, else one_for_one
  std::string group;         // "": the role is a group of its own.
  int64_t min_replicas = 0;  // 0: replicas of an elastic role, else 1.
  int64_t max_replicas = 0;  // 0: replicas of an elastic role, else no limit.
  std::string class_name;    // Key `class`; built-in roles have their own.
  std::string args_json = "[]";  // Key `args`.
  std::string worker_binary;
};

// One reward function. Exactly one of function, python, command is given.
struct RewardFunction {
  std::string name = "score";
  double weight = 1;
  std::string function;                        // exact_match | regex | numeric
  std::string pattern;                         // regex
  std::string match = "first";                 // first | last: which match or number is compared with the answer
  std::string python;                          // FILE:FUNCTION
  std::string command;                         // A program; one JSON object per line in and out.
  std::string working_dir;                     // Of python and command; loading fills in the job file's folder.
  absl::Duration timeout = absl::Seconds(10);  // Of one answer.
  int64_t workers = 1;                         // Processes of a python or command function.
  int64_t max_crashes = 10;  // Crashes and hangs of it in a row, without one answer, before the job fails.
};

struct RewardSection {
  RoleSection role;
  std::vector<RewardFunction> functions;
  double max_dropped_fraction = 0.5;  // Of the rows of the last `train_batch_size`: beyond it the job fails.
};

// The coefficient of the KL in the reward.
struct KlControlSection {
  std::string type = "fixed";  // fixed | adaptive
  double kl_coef = 0.001;
  double horizon = 10000;  // Rows.
  double target_kl = 0.1;
};

struct AlgorithmSection {
  std::string adv_estimator = "grpo";
  double adv_epsilon = 1e-6;
  bool norm_adv_by_std_in_grpo = true;
  std::string scale_rewards = "group";  // group | batch | none
  int64_t max_staleness = 0;
  std::string stale = "drop";       // drop | train
  std::string rollout_is = "auto";  // auto (token when max_staleness >= 1) | none | token
  double rollout_is_threshold = 2;
  bool use_kl_in_reward = false;
  std::string kl_penalty = "kl";
  KlControlSection kl_ctrl;
};

struct RolloutSection {
  int64_t n = 8;
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0;
  int64_t response_length = 256;
  int64_t seed = 1;
  std::string on_update = "recompute";    // recompute | keep_kv | finish
  int64_t max_num_seqs = 256;             // Sequences decoded together.
  int64_t max_num_batched_tokens = 2048;  // Tokens of one engine step.
  int64_t kv_cache_memory = 512LL << 20;  // Bytes.
  bool ignore_eos = false;
};

struct OptimSection {
  double lr = 1e-6;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  double clip_grad = 1.0;
  std::string lr_scheduler_type = "constant";  // constant | constant_with_warmup | linear | cosine
  int64_t lr_warmup_steps = 0;
  double min_lr_ratio = 0;
};

struct PolicyLossSection {
  std::string loss_mode = "vanilla";
};

struct ActorSection {
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "low_var_kl";
  double entropy_coeff = 0;
  OptimSection optim;
  int64_t ppo_epochs = 1;
  int64_t ppo_mini_batch_size = 0;   // Prompts; 0: train_batch_size.
  int64_t ppo_max_token_len = 4096;  // Tokens of a micro-batch.
  std::string loss_agg_mode = "token-mean";
  double loss_scale_factor = 0;  // 0: the padded width, for seq-mean-token-sum-norm.
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.2;
  double clip_ratio_c = 3.0;
  PolicyLossSection policy_loss;
};

struct TrainerSection {
  int64_t total_steps = 0;  // Required for a training job.
  int64_t train_batch_size = 8;
  int64_t save_freq = 0;  // Steps; 0: only at the end.
  int64_t max_checkpoints = 3;
  int64_t test_freq = 0;  // Steps; 0: never.
  bool val_before_train = false;
  int64_t val_n = 1;            // Sampled answers per validation prompt.
  std::string resume = "auto";  // auto | never | DIR
  std::vector<std::string> logger = {"console", "jsonl"};
  std::string output_dir;  // "": runs/{name}/{time}
};

// On which terms the scheduler runs the job.
struct SchedulingSection {
  std::string queue = "default";
  int64_t priority = 0;
  bool preemptible = false;
  std::vector<std::string> after;  // "JOB" or "JOB:succeeded|ended|failed"
  absl::Duration time_limit;       // 0: none.
  absl::Duration expected_time;    // 0: time_limit.
  int64_t max_retries = 0;
};

struct JobConfig {
  std::string name;
  ModelSection model;
  DataSection data;
  // Keys rollout, reference, actor and controller, and any role of the user's own (which names a class).
  std::map<std::string, RoleSection> roles;
  RewardSection reward;
  std::string placement = "colocated";             // colocated | disaggregated | hybrid
  std::vector<std::vector<std::string>> colocate;  // hybrid: lists of roles that take turns
  AlgorithmSection algorithm;
  RolloutSection rollout;
  ActorSection actor;
  TrainerSection trainer;
  SchedulingSection scheduling;
  bool deterministic = false;
  absl::Duration hang_timeout = absl::Seconds(30);
  absl::Duration stop_grace = absl::Seconds(30);

  // A job that trains a model, rather than one of user classes only.
  bool trains() const { return !model.path.empty(); }
  bool has_kl_loss() const { return actor.use_kl_loss && actor.kl_loss_coef != 0; }
  bool has_kl_in_reward() const { return algorithm.use_kl_in_reward && algorithm.kl_ctrl.kl_coef != 0; }
  // A reference is needed only when a KL coefficient is not 0.
  bool needs_reference() const { return trains() && (has_kl_loss() || has_kl_in_reward()); }
};

// A value of a loaded job and where it came from, for `troupe explain`.
struct ExplainedValue {
  std::string path;    // "actor.optim.lr"
  std::string value;   // As YAML.
  std::string source;  // "default", "job.yaml:12", "command line"
  std::string doc;
};

struct LoadedJob {
  JobConfig config;
  std::vector<ExplainedValue> values;  // Every key, in the order of the file's sections.
};

// Reads a job file, applies overrides ("trainer.total_steps=3"), fills in defaults, resolves paths relative to the
// file, and checks, also that the files it names are there. INVALID_ARGUMENT: "job.yaml:7: unknown key 'actor.optm':
// did you mean 'optim'?"; NOT_FOUND: no job file.
absl::StatusOr<LoadedJob> LoadJobFile(const std::string& path, const std::vector<std::string>& overrides);

// The same from text, on whatever machine: files are not looked for. `base_dir` is where relative paths start.
absl::StatusOr<LoadedJob> LoadJobText(std::string_view text, const std::string& name, const std::string& base_dir,
                                      const std::vector<std::string>& overrides);

// Every value as JSON / YAML; LoadJobText reads both back to the same config.
std::string JobConfigToJson(const JobConfig& config);
std::string JobConfigToYaml(const JobConfig& config);
absl::StatusOr<JobConfig> JobConfigFromJson(std::string_view json);

// What the scheduler is asked for. `output_dir` must be absolute.
v1::JobSpec MakeJobSpec(const JobConfig& config, const std::string& output_dir);

}  // namespace troupe
