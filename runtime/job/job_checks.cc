// SPDX-License-Identifier: Apache-2.0
// Checks of a whole job, beyond those of single keys.
#include <filesystem>
#include <set>

#include "runtime/base/nearest.h"
#include "runtime/base/status.h"
#include "runtime/job/job_reader.h"

namespace troupe::job_internal {
namespace {

// The line of a dotted key, or of its nearest parent that is written.
std::string SourceOf(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  std::string source = root.source;
  while (!path.empty()) {
    size_t dot = path.find('.');
    node = node->Find(path.substr(0, dot));
    if (node == nullptr) break;
    source = node->source;
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return source;
}

absl::Status Wrong(const ConfigNode& root, std::string_view path, std::string_view message) {
  return absl::InvalidArgumentError(SourceOf(root, path) + ": " + std::string(path) + ": " + std::string(message));
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool IsName(const std::string& text) {
  bool good = !text.empty() && text.size() <= 63 && text[0] != '-' && text[0] != '.';
  for (char c : text) good = good && IsNameChar(c);
  return good;
}

absl::Status CheckReward(const JobConfig& config, const ConfigNode& root) {
  if (!config.reward.role.class_name.empty()) {  // scores as it likes
    if (config.reward.functions.empty()) return absl::OkStatus();
    return Wrong(root, "roles.reward", "give a class or a function, python, command: not both");
  }
  if (config.reward.functions.empty()) {
    return Wrong(root, "roles.reward", "a reward is needed: function, python or command (see docs/job-file.md)");
  }
  std::set<std::string> names;
  for (const RewardFunction& f : config.reward.functions) {
    int given = !f.function.empty() + !f.python.empty() + !f.command.empty();
    if (given != 1) return Wrong(root, "roles.reward", "give exactly one of function, python and command");
    if (f.function == "regex" && f.pattern.empty())
      return Wrong(root, "roles.reward", "function regex needs a pattern");
    if (!f.python.empty() && f.python.rfind(':') == std::string::npos) {
      return Wrong(root, "roles.reward.python", "expected FILE.py:FUNCTION, got '" + f.python + "'");
    }
    if (!names.insert(f.name).second) return Wrong(root, "roles.reward", "two functions are named '" + f.name + "'");
  }
  return absl::OkStatus();
}

absl::Status CheckTraining(const JobConfig& c, const ConfigNode& root) {
  if (c.data.train.empty()) return Wrong(root, "data.train", "training prompts are needed: a JSON lines file");
  if (c.trainer.total_steps < 1) return Wrong(root, "trainer.total_steps", "needed: the number of optimizer steps");
  if (c.actor.optim.betas.size() != 2) return Wrong(root, "actor.optim.betas", "expected two numbers");
  for (double beta : c.actor.optim.betas) {
    if (beta < 0 || beta >= 1) return Wrong(root, "actor.optim.betas", "expected numbers in [0, 1)");
  }
  if (c.actor.clip_ratio_low >= 1) return Wrong(root, "actor.clip_ratio_low", "expected a value in [0, 1)");
  int64_t mini = c.actor.ppo_mini_batch_size;
  if (mini > c.trainer.train_batch_size || (mini > 0 && c.trainer.train_batch_size % mini != 0)) {
    return Wrong(root, "actor.ppo_mini_batch_size",
                 "must divide trainer.train_batch_size (" + std::to_string(c.trainer.train_batch_size) + ")");
  }
  if (c.rollout.n < 2 && c.algorithm.adv_estimator == "grpo") {
    return Wrong(root, "rollout.n", "grpo compares the samples of a prompt: at least 2 are needed");
  }
  if (c.rollout.top_p <= 0) return Wrong(root, "rollout.top_p", "expected a value above 0; 1 turns it off");
  if ((c.trainer.val_before_train || c.trainer.test_freq > 0) && c.data.val.empty()) {
    return Wrong(root, "data.val",
                 "validation is asked for (trainer.test_freq, val_before_train) but no file is given");
  }
  for (const std::string& logger : c.trainer.logger) {
    if (logger != "console" && logger != "jsonl" && logger != "tensorboard") {
      return Wrong(root, "trainer.logger", "'" + logger + "' is not one of console, jsonl, tensorboard");
    }
  }
  return CheckReward(c, root);
}

absl::Status CheckPlacement(const JobConfig& config, const ConfigNode& root) {
  std::set<std::string> seen;
  for (const auto& group : config.colocate) {
    for (const std::string& role : group) {
      if (role != "reward" && !config.roles.contains(role)) {
        std::vector<std::string> names = {"reward"};
        for (const auto& item : config.roles) names.push_back(item.first);
        std::string nearest = NearestOf(role, names);
        return Wrong(root, "placement",
                     "no role '" + role + "'" + (nearest.empty() ? "" : ": did you mean '" + nearest + "'?"));
      }
      if (!seen.insert(role).second) return Wrong(root, "placement", "the role '" + role + "' stands in two lists");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReplicas(const JobConfig& config, const std::string& name, const RoleSection& role,
                           const ConfigNode& root) {
  const std::string key = "roles." + name;
  const int64_t least = role.min_replicas, most = role.max_replicas;
  if (least > role.replicas) return Wrong(root, key + ".min_replicas", "it is above replicas");
  if (most > 0 && most < role.replicas) return Wrong(root, key + ".max_replicas", "it is below replicas");
  if (role.policy != "elastic") return absl::OkStatus();
  if (!ColocationGroup(config, name).empty()) {
    return Wrong(root, key + ".policy", "an elastic role takes turns with no other one (placement)");
  }
  if (config.trains() && name == "rollout") {
    return Wrong(root, key + ".policy",
                 "the rows of a rollout are read until they are trained, so a job cannot go on without one; "
                 "'troupe scale' adds some");
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const JobConfig& config, const ConfigNode& root) {
  for (const auto& [name, role] : config.roles) {
    if (absl::Status status = CheckReplicas(config, name, role, root); !status.ok()) return status;
  }
  return CheckReplicas(config, "reward", config.reward.role, root);
}

absl::Status CheckScheduling(const SchedulingSection& c, const ConfigNode& root) {
  for (const std::string& text : c.after) {
    const size_t colon = text.find(':');
    const std::string end = colon == std::string::npos ? "succeeded" : text.substr(colon + 1);
    if (colon == 0 || text.empty() || (end != "succeeded" && end != "ended" && end != "failed")) {
      return Wrong(root, "scheduling.after",
                   "expected a job's id, or ID:succeeded, ID:ended or ID:failed, got '" + text + "'");
    }
  }
  if (c.time_limit > absl::ZeroDuration() && c.expected_time > c.time_limit) {
    return Wrong(root, "scheduling.expected_time", "it is longer than scheduling.time_limit");
  }
  return absl::OkStatus();
}

absl::Status CheckFile(const ConfigNode& root, std::string_view key, const std::string& path,
                       const std::string& expected) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error)) return absl::OkStatus();
  std::vector<std::string> names;
  for (fs::directory_iterator it(fs::path(path).parent_path(), error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::string nearest = NearestOf(fs::path(path).filename().string(), names);
  return Wrong(root, key,
               "'" + path + "' does not exist (expected: " + expected + ")" +
                   (nearest.empty() ? "" : ": did you mean '" + nearest + "'?"));
}

}  // namespace

absl::Status CheckJob(const JobConfig& config, const ConfigNode& root) {
  if (!IsName(config.name)) {
    return Wrong(root, "name", "needed: letters, digits, '-', '_' and '.', at most 63, got '" + config.name + "'");
  }
  for (const auto& [name, role] : config.roles) {
    if (!IsName(name)) return Wrong(root, "roles." + name, "a role's name is letters, digits, '-', '_' and '.'");
  }
  TROUPE_RETURN_IF_ERROR(CheckPlacement(config, root));
  TROUPE_RETURN_IF_ERROR(CheckScheduling(config.scheduling, root));
  TROUPE_RETURN_IF_ERROR(CheckGroups(config, root));
  if (config.trains()) return CheckTraining(config, root);
  if (!config.data.train.empty()) return Wrong(root, "model.path", "needed: a GGUF file or a Hugging Face folder");
  if (config.roles.empty()) return Wrong(root, "roles", "nothing to run: give a model, or roles with a class");
  for (const auto& [name, role] : config.roles) {
    if (role.class_name.empty()) return Wrong(root, "roles." + name, "a class is needed, or a model (model.path)");
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const JobConfig& config, const ConfigNode& root) {
  if (!config.trains()) return absl::OkStatus();
  TROUPE_RETURN_IF_ERROR(CheckFile(root, "model.path", config.model.path, "a GGUF file or a Hugging Face folder"));
  TROUPE_RETURN_IF_ERROR(CheckFile(root, "data.train", config.data.train, "JSON lines"));
  if (!config.data.val.empty()) {
    TROUPE_RETURN_IF_ERROR(CheckFile(root, "data.val", config.data.val, "JSON lines"));
  }
  for (const RewardFunction& function : config.reward.functions) {
    std::string file = function.python.substr(0, function.python.rfind(':'));
    if (!file.empty()) TROUPE_RETURN_IF_ERROR(CheckFile(root, "roles.reward.python", file, "a Python file"));
  }
  const std::string& resume = config.trainer.resume;
  if (resume == "auto" || resume == "never") return absl::OkStatus();
  return CheckFile(root, "trainer.resume", resume, "auto, never, or the folder of a run or a checkpoint");
}

}  // namespace troupe::job_internal
