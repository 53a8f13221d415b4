// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/worker_spawn.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/base/ids.h"
#include "runtime/device/visible_devices.h"
#include "runtime/env/cpu_list.h"

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

// Where the memory of its devices is limited: how much of each, and which part that is.
void LimitDeviceMemory(const v1::Resources& asked, int64_t device_bytes, std::map<std::string, std::string>& out) {
  int64_t bytes = asked.device_memory_bytes();
  double fraction = asked.device_share();
  if (bytes == 0) bytes = static_cast<int64_t>(fraction * static_cast<double>(device_bytes));
  if (fraction == 0 && device_bytes > 0) fraction = static_cast<double>(bytes) / static_cast<double>(device_bytes);
  if (bytes > 0) out["TROUPE_DEVICE_MEMORY_BYTES"] = std::to_string(bytes);
  if (fraction > 0) out["TROUPE_DEVICE_MEMORY_FRACTION"] = absl::StrCat(std::min(fraction, 1.0));
}

void ShowDevices(const v1::StartWorker& start, const WorkerSpawnOptions& options,
                 std::map<std::string, std::string>& out) {
  std::vector<std::string> names;
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  for (int32_t index : start.device_indices()) {
    if (index < 0 || static_cast<size_t>(index) >= options.devices.size()) continue;  // AgentState has refused those.
    const device::FoundDevice& found = options.devices[static_cast<size_t>(index)];
    names.push_back(found.visible_name);
    least_bytes = std::min(least_bytes, found.device.memory_bytes());
  }
  for (const auto& [name, value] : device::VisibleEnvironment(options.device_kind, names)) out[name] = value;
  out.erase("TROUPE_DEVICE_MEMORY_BYTES");
  out.erase("TROUPE_DEVICE_MEMORY_FRACTION");
  if (!names.empty()) LimitDeviceMemory(start.role().resources(), least_bytes, out);
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

v1::KeeperSpawn SpawnOf(const v1::StartWorker& start, const WorkerSpawnOptions& options, const std::vector<int>& cpus) {
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
  ShowDevices(start, options, environment);

  v1::KeeperSpawn spawn;
  *spawn.mutable_actor() = start.actor();
  spawn.add_argv(start.role().worker_binary().empty() ? options.worker_binary : start.role().worker_binary());
  for (const auto& [name, value] : environment) spawn.add_environment(name + "=" + value);
  spawn.set_working_directory(start.output_dir().empty() ? options.runtime_dir : start.output_dir());
  spawn.set_log_path(WorkerLogPath(start, options.runtime_dir));
  spawn.set_token(options.token);
  spawn.set_memory_bytes_max(start.role().resources().memory_bytes());
  spawn.set_cpus(CpuListText(cpus));
  if (options.weigh_cpus) {
    spawn.set_cpu_weight(static_cast<int>(std::clamp(start.role().resources().cpus() * 100, 1.0, 10'000.0)));
  }
  return spawn;
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
