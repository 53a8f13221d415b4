// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/node_resources.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <thread>

#include "runtime/env/file.h"
#include "runtime/env/memory.h"

namespace troupe::agent {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr double kCustomMax = 1e9;

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
  for (const auto& [name, amount] : options.custom) {
    if (name.empty() || name.size() > kNameBytesMax || !(amount > 0 && amount <= kCustomMax)) {
      return absl::InvalidArgumentError("resource '" + name + "': expected a name of at most " +
                                        std::to_string(kNameBytesMax) + " bytes and a number above 0, up to 1e9");
    }
    (*resources.mutable_custom())[name] = amount;
  }
  return resources;
}

}  // namespace troupe::agent
