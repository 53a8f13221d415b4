// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/run_folder.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/job/config_tree.h"

namespace troupe::cli {
namespace {

using nlohmann::json;

// A run's summary.json is written when its job ends; without one the run is unfinished.
bool IsFinished(const std::string& folder, const JobConfig& config) {
  absl::StatusOr<std::string> text = ReadFile(folder + "/summary.json", 1 << 20);
  if (!text.ok()) return false;
  json summary = json::parse(*text, nullptr, false);
  return summary.is_object() && summary.value("state", "") == "succeeded" &&
         summary.value("step", int64_t{0}) >= config.trainer.total_steps;
}

absl::StatusOr<JobConfig> StoredJob(const std::string& folder) {
  TROUPE_ASSIGN_OR_RETURN(std::string text, ReadFile(folder + "/job.yaml", kConfigBytesMax));
  TROUPE_ASSIGN_OR_RETURN(LoadedJob loaded, LoadJobText(text, folder + "/job.yaml", folder, {}));
  return std::move(loaded.config);
}

void Flatten(const json& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (!value.is_object()) {
    out[path] = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return;
  }
  for (const auto& [key, item] : value.items()) Flatten(item, path.empty() ? key : path + "." + key, out);
}

std::map<std::string, std::string> Flat(const JobConfig& config) {
  std::map<std::string, std::string> out;
  Flatten(json::parse(JobConfigToJson(config), nullptr, false), "", out);
  return out;
}

// ALREADY_EXISTS: a live run has it.
absl::StatusOr<FileLock> TakeLock(const std::string& path, const std::string& holder) {
  absl::StatusOr<FileLock> lock = FileLock::Acquire(path, holder);
  if (!absl::IsAlreadyExists(lock.status())) return lock;
  return absl::AlreadyExistsError(MessageOf(lock.status()) + "; wait for it, or choose another trainer.output_dir");
}

// ALREADY_EXISTS: a live run has the folder.
absl::StatusOr<RunFolder> Take(const std::string& folder, JobConfig& config) {
  TROUPE_RETURN_IF_ERROR(MakeDirs(folder));
  TROUPE_ASSIGN_OR_RETURN(FileLock lock, TakeLock(folder + "/run.lock", "another run"));
  // A submitted job is no child of the command that submitted it: its controller holds the folder while it works.
  TROUPE_RETURN_IF_ERROR(TakeLock(folder + "/controller.lock", "a job ('troupe jobs')").status());
  RunFolder run{folder, std::move(lock)};
  bool exists = FileExists(folder + "/job.yaml");
  if (exists) {
    TROUPE_ASSIGN_OR_RETURN(JobConfig before, StoredJob(folder));
    std::vector<std::string> differences = Differences(before, config);
    if (config.trainer.resume == "never") {
      return absl::FailedPreconditionError(folder +
                                           " holds a run already and trainer.resume is never; choose another "
                                           "trainer.output_dir");
    }
    if (!differences.empty()) {
      std::string message = folder + " holds a run of another job; choose another trainer.output_dir. It differs in:";
      for (const std::string& line : differences) message += "\n  " + line;
      return absl::FailedPreconditionError(message);
    }
    run.finished = IsFinished(folder, config);
    run.continues = !run.finished;
  }
  config.trainer.output_dir = folder;
  if (!run.finished) TROUPE_RETURN_IF_ERROR(WriteFileAtomic(folder + "/job.yaml", JobConfigToYaml(config)));
  return run;
}

// The newest unfinished run of the same job under `base`, or "".
std::string UnfinishedRun(const std::string& base, const JobConfig& config) {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(base);
  if (!names.ok()) return "";
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    std::string folder = base + "/" + *name;
    absl::StatusOr<JobConfig> before = StoredJob(folder);
    if (!before.ok() || !Differences(*before, config).empty()) continue;
    return IsFinished(folder, config) ? "" : folder;
  }
  return "";
}

}  // namespace

bool IsHarmlessKey(const std::string& path) {
  static const char* kHarmless[] = {"trainer.total_steps", "trainer.logger", "trainer.max_checkpoints",
                                    "trainer.save_freq",   "trainer.resume", "trainer.output_dir",
                                    "trainer.test_freq",   "trainer.val_n",  "trainer.val_before_train",
                                    "hang_timeout",        "stop_grace",     "placement"};
  for (const char* key : kHarmless) {
    if (path == key) return true;
  }
  if (path.rfind("scheduling.", 0) == 0) return true;
  bool of_role = path.rfind("roles.", 0) == 0;
  return of_role && (path.find(".restart.") != std::string::npos || path.find(".resources.") != std::string::npos ||
                     path.find(".worker_binary") != std::string::npos);
}

std::vector<std::string> Differences(const JobConfig& before, const JobConfig& after) {
  std::map<std::string, std::string> old_values = Flat(before), new_values = Flat(after);
  std::vector<std::string> lines;
  for (const auto& [path, value] : old_values) {
    auto found = new_values.find(path);
    std::string other = found == new_values.end() ? "(none)" : found->second;
    if (other != value && !IsHarmlessKey(path)) lines.push_back(path + ": " + value + " -> " + other);
  }
  for (const auto& [path, value] : new_values) {
    if (!old_values.contains(path) && !IsHarmlessKey(path)) lines.push_back(path + ": (none) -> " + value);
  }
  return lines;
}

absl::StatusOr<RunFolder> PrepareRunFolder(JobConfig& config, const std::string& working_directory, absl::Time now) {
  auto absolute = [&](const std::string& path) {
    return (std::filesystem::path(working_directory) / ExpandHome(path)).lexically_normal().string();
  };
  if (!config.trainer.output_dir.empty()) return Take(absolute(config.trainer.output_dir), config);
  std::string base = absolute("runs/" + config.name);
  if (config.trainer.resume == "auto" && config.trains()) {
    std::string unfinished = UnfinishedRun(base, config);
    if (!unfinished.empty()) {
      absl::StatusOr<RunFolder> run = Take(unfinished, config);
      // One that a live run holds is left alone: this is a new run.
      if (!absl::IsAlreadyExists(run.status())) return run;
    }
  }
  std::string stamp = absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone());
  std::string folder = base + "/" + stamp;
  for (int i = 2; FileExists(folder); ++i) folder = base + "/" + stamp + "-" + std::to_string(i);
  return Take(folder, config);
}

}  // namespace troupe::cli
