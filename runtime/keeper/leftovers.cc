// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "runtime/keeper/process_table.h"
#include "runtime/keeper/worker_process.h"

namespace troupe::keeper {
namespace {

// A killed process that is still there after this long hangs in the kernel.
constexpr int kPassesMax = 500;
constexpr std::chrono::milliseconds kPassInterval(20);

}  // namespace

absl::Status EndLeftoverProcesses(const std::string& runtime_dir) {
  const std::string mark = std::string(WorkerProcess::kKeeperVariable) + "=" + runtime_dir;
  pid_t left = 0;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    left = 0;
    for (const ProcessEntry& entry : ReadProcessTable()) {
      if (entry.zombie || entry.pid == ::getpid() || !HasEnvironmentEntry(entry.pid, mark)) continue;
      ::kill(entry.pid, SIGKILL);
      left = entry.pid;
    }
    if (left == 0) return absl::OkStatus();
    std::this_thread::sleep_for(kPassInterval);
  }
  return absl::FailedPreconditionError("process " + std::to_string(left) + " of a former keeper of " + runtime_dir +
                                       " was killed but does not end");
}

std::string CgroupNameOf(const std::string& runtime_dir) {
  // FNV-1a: the name must be the same in every build.
  uint64_t hash = 14695981039346656037ULL;
  for (unsigned char c : runtime_dir) hash = (hash ^ c) * 1099511628211ULL;
  char name[32];
  std::snprintf(name, sizeof(name), "troupe-%016llx", static_cast<unsigned long long>(hash));
  return name;
}

}  // namespace troupe::keeper
