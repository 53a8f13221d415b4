// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/worker_spawn.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "runtime/base/ids.h"

namespace troupe::agent {
namespace {

constexpr std::string_view kInherited[] = {"PATH",
                                           "HOME",
                                           "USER",
                                           "LANG",
                                           "TZ",
                                           "TMPDIR",
                                           "VIRTUAL_ENV",
                                           "LD_LIBRARY_PATH",
                                           "XDG_CACHE_HOME",
                                           "HF_HOME",
                                           "ASAN_OPTIONS",
                                           "UBSAN_OPTIONS",
                                           "TSAN_OPTIONS",
                                           "LSAN_OPTIONS"};
constexpr std::string_view kInheritedPrefixes[] = {"LC_", "PYTHON", "NCCL_", "TROUPE_"};

bool IsInherited(std::string_view name) {
  if (name.find("TOKEN") != std::string_view::npos) return false;
  if (std::find(std::begin(kInherited), std::end(kInherited), name) != std::end(kInherited)) return true;
  return std::any_of(std::begin(kInheritedPrefixes), std::end(kInheritedPrefixes),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

// The devices of `start` by the names that the agent itself has for them: where it was given only some of the machine's
// (by Slurm, say), device 0 of the node is the first of these.
std::string DeviceList(const v1::StartWorker& start, const std::string& own_devices) {
  const std::vector<std::string> own = VisibleDevices(own_devices);
  std::string list;
  for (int32_t index : start.device_indices()) {
    bool named = index >= 0 && static_cast<size_t>(index) < own.size();
    list += (list.empty() ? "" : ",") + (named ? own[index] : std::to_string(index));
  }
  return list;
}

std::string FileNameOf(const v1::StartWorker& start) {
  std::string name = start.actor().id().role() + "-" + std::to_string(start.actor().id().replica()) + ".log";
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

}  // namespace

std::string WorkerLogPath(const v1::StartWorker& start, const std::string& runtime_dir) {
  if (!start.output_dir().empty()) return start.output_dir() + "/logs/" + FileNameOf(start);
  return runtime_dir + "/logs/" + start.actor().id().job_id() + "/" + FileNameOf(start);
}

v1::KeeperSpawn SpawnOf(const v1::StartWorker& start, const WorkerSpawnOptions& options) {
  std::map<std::string, std::string> environment;
  for (const auto& [name, value] : options.environment) {
    if (IsInherited(name)) environment[name] = value;
  }
  int threads = std::max(1, static_cast<int>(std::ceil(start.role().resources().cpus())));
  environment["OMP_NUM_THREADS"] = std::to_string(threads);
  environment["OMP_WAIT_POLICY"] = "PASSIVE";
  environment["GOMP_SPINCOUNT"] = "0";
  for (const std::string& variable : start.role().environment()) {
    size_t equals = variable.find('=');  // The head has checked them.
    if (equals != std::string::npos) environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  environment["TROUPE_WORKER"] = ActorLife::FromProto(start.actor()).ToString();
  environment["TROUPE_AGENT_SOCKET"] = options.agent_socket;
  // A variable that is set and empty hides every device: no worker sees one that it was not given.
  auto own = options.environment.find("CUDA_VISIBLE_DEVICES");
  std::string own_devices = own == options.environment.end() ? "" : own->second;
  environment["CUDA_VISIBLE_DEVICES"] = options.device_kind == "cuda" ? DeviceList(start, own_devices) : "";
  if (options.device_kind == "sim") environment["TROUPE_SIM_DEVICES"] = DeviceList(start, "");

  v1::KeeperSpawn spawn;
  *spawn.mutable_actor() = start.actor();
  spawn.add_argv(start.role().worker_binary().empty() ? options.worker_binary : start.role().worker_binary());
  for (const auto& [name, value] : environment) spawn.add_environment(name + "=" + value);
  spawn.set_working_directory(start.output_dir().empty() ? options.runtime_dir : start.output_dir());
  spawn.set_log_path(WorkerLogPath(start, options.runtime_dir));
  spawn.set_token(options.token);
  spawn.set_memory_bytes_max(start.role().resources().memory_bytes());
  return spawn;
}

std::vector<std::string> VisibleDevices(const std::string& value) {
  std::vector<std::string> devices;
  std::istringstream names(value);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty() || name[0] == '-' || name == "NoDevFiles") break;
    devices.push_back(name);
  }
  return devices;
}

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return environment;
}

}  // namespace troupe::agent
