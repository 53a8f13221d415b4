// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/devices.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/agent/worker_spawn.h"
#include "runtime/env/file.h"
#include "runtime/env/memory.h"

namespace troupe::agent {
namespace {

constexpr int kSimDevicesMax = 1024;

// The share of a control group: v2 "200000 100000" or "max 100000", v1 in two files (-1: no limit).
double CpuQuota() {
  std::string text = ReadFile("/sys/fs/cgroup/cpu.max", 4096).value_or("");
  if (text.empty()) {
    text = ReadFile("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 4096).value_or("") + " " +
           ReadFile("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 4096).value_or("");
  }
  return CpusOfQuota(text);
}

double UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                            : static_cast<int>(std::thread::hardware_concurrency());
  return std::min<double>(std::max(1, cpus), CpuQuota());
}

// Those that this process may see.
int CudaDevices() {
  const std::map<std::string, std::string> environment = OwnEnvironment();
  auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != environment.end()) return static_cast<int>(VisibleDevices(visible->second).size());
  int count = 0;
  while (FileExists("/dev/nvidia" + std::to_string(count))) ++count;
  return count;
}

}  // namespace

double CpusOfQuota(std::string_view text) {
  double quota = 0;
  double period = 0;
  std::istringstream numbers{std::string(text)};
  if (!(numbers >> quota >> period) || quota <= 0 || period <= 0) return std::numeric_limits<double>::infinity();
  return quota / period;
}

absl::StatusOr<v1::Resources> FindNodeResources(const NodeResourceOptions& options) {
  if (!(options.cpus >= 0) || options.memory_bytes < 0) {
    return absl::InvalidArgumentError("a node's CPUs and memory must not be negative");
  }
  v1::Resources resources;
  resources.set_cpus(options.cpus > 0 ? options.cpus : UsableCpus());
  resources.set_memory_bytes(options.memory_bytes > 0 ? options.memory_bytes : UsableMemoryBytes());
  if (options.devices == "none") return resources;
  if (options.devices == "auto") {
    resources.set_devices(CudaDevices());
    if (resources.devices() > 0) resources.set_device_kind("cuda");
    return resources;
  }
  constexpr char kSim[] = "sim:";
  constexpr size_t kSimBytes = sizeof(kSim) - 1;
  int count = -1;
  const std::string& text = options.devices;
  const char* end = text.data() + text.size();
  if (text.rfind(kSim, 0) != 0 || std::from_chars(text.data() + kSimBytes, end, count).ptr != end || count < 0 ||
      count > kSimDevicesMax) {
    return absl::InvalidArgumentError("devices '" + text + "': expected auto, none or sim:N with N up to " +
                                      std::to_string(kSimDevicesMax));
  }
  resources.set_devices(count);
  resources.set_device_kind("sim");
  return resources;
}

}  // namespace troupe::agent
