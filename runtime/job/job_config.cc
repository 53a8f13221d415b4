// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/job_config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/status.h"
#include "runtime/job/config_tree.h"
#include "runtime/job/job_fields.h"
#include "runtime/job/job_reader.h"
#include "runtime/job/yaml_text.h"

namespace troupe::job_internal {
namespace {

using nlohmann::ordered_json;

// Makes every path of the config absolute.
class PathResolver {
 public:
  explicit PathResolver(std::string base) : base_(std::move(base)) {}
  template <typename T>
  void Field(const char*, T&& value, const char*, const Rule& = {}) {
    if constexpr (std::is_same_v<std::decay_t<T>, PathText>) Resolve(value.value);
  }
  template <typename T>
  void Section(const char*, T& section) {
    VisitFields(*this, section);
  }
  void Resolve(std::string& path) const {
    if (path.empty()) return;
    const char* home = std::getenv("HOME");
    if (path[0] == '~' && (path.size() == 1 || path[1] == '/') && home != nullptr) path = home + path.substr(1);
    path = (std::filesystem::path(base_) / path).lexically_normal().string();
  }

 private:
  std::string base_;
};

// Writes every value of the config.
class JsonWriter {
 public:
  template <typename T>
  void Field(const char* key, const T& value, const char*, const Rule& = {}) {
    if constexpr (std::is_same_v<T, absl::Duration>) {
      json[key] = absl::FormatDuration(value);
    } else if constexpr (std::is_same_v<T, JsonText>) {
      json[key] = ordered_json::parse(value.value, nullptr, false);
    } else if constexpr (std::is_same_v<T, PathText> || std::is_same_v<T, Bytes>) {
      json[key] = value.value;
    } else {
      json[key] = value;
    }
  }
  template <typename T>
  void Section(const char* key, T& section) {
    JsonWriter writer;
    VisitFields(writer, section);
    json[key] = std::move(writer.json);
  }
  ordered_json json = ordered_json::object();
};

ordered_json WriteRoles(JobConfig& config) {
  JsonWriter roles;
  for (auto& [name, role] : config.roles) roles.Section(name.c_str(), role);
  if (!config.trains()) return roles.json;
  JsonWriter reward;
  VisitFields(reward, config.reward.role);
  reward.json["max_dropped_fraction"] = config.reward.max_dropped_fraction;
  reward.json["functions"] = ordered_json::array();
  for (RewardFunction& function : config.reward.functions) {
    JsonWriter writer;
    VisitFields(writer, function);
    reward.json["functions"].push_back(std::move(writer.json));
  }
  roles.json["reward"] = std::move(reward.json);
  return roles.json;
}

ordered_json WriteJob(JobConfig config) {
  JsonWriter job;
  job.json["name"] = config.name;
  if (config.trains()) {
    job.Section("model", config.model);
    job.Section("data", config.data);
  }
  job.json["roles"] = WriteRoles(config);
  job.json["placement"] = config.placement == "hybrid" ? ordered_json(config.colocate) : ordered_json(config.placement);
  if (config.trains()) {
    job.Section("algorithm", config.algorithm);
    job.Section("rollout", config.rollout);
    job.Section("actor", config.actor);
  }
  job.Section("trainer", config.trainer);
  job.Section("scheduling", config.scheduling);
  job.json["deterministic"] = config.deterministic;
  job.json["hang_timeout"] = absl::FormatDuration(config.hang_timeout);
  job.json["stop_grace"] = absl::FormatDuration(config.stop_grace);
  return job.json;
}

v1::RoleSpec MakeRole(const std::string& name, const RoleSection& role, const std::string& built_in_class) {
  v1::RoleSpec spec;
  spec.set_role(name);
  spec.set_actor_class(role.class_name.empty() ? built_in_class : role.class_name);
  spec.set_replicas(static_cast<int32_t>(role.replicas));
  spec.mutable_resources()->set_cpus(role.resources.cpu);
  spec.mutable_resources()->set_memory_bytes(role.resources.memory);
  spec.mutable_resources()->set_devices(static_cast<int32_t>(role.resources.devices));
  spec.mutable_resources()->set_device_kind(role.resources.device_kind);
  spec.mutable_restart()->set_max_restarts(static_cast<int32_t>(role.restart.max));
  spec.mutable_restart()->set_window_ms(absl::ToInt64Milliseconds(role.restart.window));
  spec.mutable_restart()->set_backoff_initial_ms(absl::ToInt64Milliseconds(role.restart.backoff_initial));
  spec.mutable_restart()->set_backoff_max_ms(absl::ToInt64Milliseconds(role.restart.backoff_max));
  static const std::map<std::string, v1::GroupPolicy> kPolicies = {
      {"one_for_one", v1::ONE_FOR_ONE}, {"all_for_one", v1::ALL_FOR_ONE}, {"elastic", v1::ELASTIC}};
  auto policy = kPolicies.find(role.policy);
  // A trainer moves with a checkpoint, or not at all.
  const v1::GroupPolicy of_its_own = built_in_class == "Trainer" ? v1::ALL_FOR_ONE : v1::ONE_FOR_ONE;
  spec.set_policy(policy == kPolicies.end() ? of_its_own : policy->second);
  spec.set_group(role.group);
  spec.set_min_replicas(static_cast<int32_t>(role.min_replicas));
  spec.set_max_replicas(static_cast<int32_t>(role.max_replicas));
  spec.set_grow_only(built_in_class == "Rollout");  // Its rows are read until they are trained.
  spec.set_worker_binary(role.worker_binary);
  spec.set_args_json(role.args_json);
  return spec;
}

}  // namespace

// Which roles take turns: all of a colocated job, those named in one list of a hybrid one.
std::string ColocationGroup(const JobConfig& config, const std::string& role) {
  if (role == "controller") return "";
  if (config.placement == "colocated" && config.trains()) return "colocated";
  for (size_t i = 0; i < config.colocate.size(); ++i) {
    const auto& group = config.colocate[i];
    if (std::find(group.begin(), group.end(), role) != group.end()) return "colocated-" + std::to_string(i);
  }
  return "";
}

namespace {

absl::StatusOr<LoadedJob> LoadTree(ConfigNode root, const std::string& base_dir,
                                   const std::vector<std::string>& overrides, bool check_files) {
  for (const std::string& assignment : overrides) TROUPE_RETURN_IF_ERROR(ApplyOverride(root, assignment));
  LoadedJob loaded;
  // Which roles exist depends on whether there is a model: look at it first.
  if (const ConfigNode* model = root.Find("model"); model != nullptr) {
    if (const ConfigNode* path = model->Find("path")) loaded.config.model.path = path->scalar;
  }
  TROUPE_RETURN_IF_ERROR(ReadJob(root, loaded.config, loaded.values));
  TROUPE_RETURN_IF_ERROR(CheckJob(loaded.config, root));
  PathResolver resolver(base_dir);
  VisitFields(resolver, loaded.config.model);
  VisitFields(resolver, loaded.config.data);
  VisitFields(resolver, loaded.config.reward.role);
  for (auto& [name, role] : loaded.config.roles) VisitFields(resolver, role);
  for (RewardFunction& function : loaded.config.reward.functions) {
    resolver.Resolve(function.python);
    if (function.working_dir.empty()) function.working_dir = base_dir;
    resolver.Resolve(function.working_dir);
  }
  std::string& resume = loaded.config.trainer.resume;
  if (resume != "auto" && resume != "never") resolver.Resolve(resume);
  // The run's folder is where the user stands, not where the job file lies.
  if (check_files) TROUPE_RETURN_IF_ERROR(CheckFiles(loaded.config, root));
  return loaded;
}

}  // namespace
}  // namespace troupe::job_internal

namespace troupe {

using job_internal::MakeRole;
using nlohmann::ordered_json;

absl::StatusOr<LoadedJob> LoadJobText(std::string_view text, const std::string& name, const std::string& base_dir,
                                      const std::vector<std::string>& overrides) {
  TROUPE_ASSIGN_OR_RETURN(ConfigNode root, ParseYaml(text, name));
  return job_internal::LoadTree(std::move(root), base_dir, overrides, /*check_files=*/false);
}

absl::StatusOr<LoadedJob> LoadJobFile(const std::string& path, const std::vector<std::string>& overrides) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError("'" + path + "' is a folder; expected a job file (YAML)");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("cannot read the job file '" + path + "': " + std::string(strerror(errno)));
  std::string text(kConfigBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::filesystem::path absolute = std::filesystem::absolute(path, error).lexically_normal();
  TROUPE_ASSIGN_OR_RETURN(ConfigNode root, ParseYaml(text, path));
  return job_internal::LoadTree(std::move(root), absolute.parent_path().string(), overrides, /*check_files=*/true);
}

std::string JobConfigToJson(const JobConfig& config) {
  return job_internal::WriteJob(config).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string JobConfigToYaml(const JobConfig& config) { return YamlOfJson(JobConfigToJson(config)); }

absl::StatusOr<JobConfig> JobConfigFromJson(std::string_view json) {
  TROUPE_ASSIGN_OR_RETURN(LoadedJob loaded, LoadJobText(json, "job", "/", {}));
  return std::move(loaded.config);
}

namespace {

// "JOB", or with the end that is waited for: "JOB:failed".
v1::JobDependency DependencyOf(const std::string& text) {
  v1::JobDependency dependency;
  const size_t colon = text.find(':');
  dependency.set_job_id(text.substr(0, colon));
  const std::string end = colon == std::string::npos ? "succeeded" : text.substr(colon + 1);
  dependency.set_condition(end == "failed"  ? v1::JobDependency::FAILED
                           : end == "ended" ? v1::JobDependency::ENDED
                                            : v1::JobDependency::SUCCEEDED);
  return dependency;
}

void SetScheduling(const SchedulingSection& scheduling, v1::JobSpec& spec) {
  spec.set_queue(scheduling.queue == "default" ? "" : scheduling.queue);
  spec.set_priority(static_cast<int32_t>(scheduling.priority));
  spec.set_preemptible(scheduling.preemptible);
  for (const std::string& text : scheduling.after) *spec.add_after() = DependencyOf(text);
  spec.set_time_limit_ms(absl::ToInt64Milliseconds(scheduling.time_limit));
  spec.set_expected_ms(absl::ToInt64Milliseconds(scheduling.expected_time));
  spec.set_max_retries(static_cast<int32_t>(scheduling.max_retries));
}

}  // namespace

v1::JobSpec MakeJobSpec(const JobConfig& config, const std::string& output_dir) {
  static const std::map<std::string, std::string> kClasses = {
      {"rollout", "Rollout"}, {"reference", "Reference"}, {"actor", "Trainer"}, {"controller", "Controller"}};
  v1::JobSpec spec;
  spec.set_name(config.name);
  spec.set_output_dir(output_dir);
  spec.set_config_json(JobConfigToJson(config));
  spec.set_stop_grace_ms(absl::ToInt64Milliseconds(config.stop_grace));
  spec.set_hang_timeout_ms(absl::ToInt64Milliseconds(config.hang_timeout));
  SetScheduling(config.scheduling, spec);
  for (const auto& [name, role] : config.roles) {
    if (config.trains() && name == "reference" && !config.needs_reference()) continue;
    auto known = config.trains() ? kClasses.find(name) : kClasses.end();
    *spec.add_roles() = MakeRole(name, role, known == kClasses.end() ? "" : known->second);
  }
  if (config.trains()) *spec.add_roles() = MakeRole("reward", config.reward.role, "Reward");
  for (v1::RoleSpec& role : *spec.mutable_roles())
    role.set_colocation_group(job_internal::ColocationGroup(config, role.role()));
  return spec;
}

}  // namespace troupe
