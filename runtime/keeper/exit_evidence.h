// SPDX-License-Identifier: Apache-2.0
// ExitEvidence: what the keeper knows about the end of a worker, and the cause that follows from it.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/v1/common.pb.h"

namespace troupe::keeper {

struct ExitEvidence {
  bool signaled = false;
  int exit_code = 0;           // When not signaled.
  int signal = 0;              // When signaled.
  int64_t peak_rss_bytes = 0;  // The largest of its processes.
  int64_t memory_bytes = 0;    // What it could have had: its group's limit or the machine's memory; 0 unknown.
  // Processes of its group that the kernel killed for memory; -1: there is no such counter.
  int64_t group_oom_kills = -1;
  // The kernel killed some process of this machine for memory since the worker started.
  bool machine_oom_kill = false;
  bool killed_by_troupe = false;
  int tree_processes_killed = 0;  // Processes it left behind.
};

// OUT_OF_MEMORY when the group's counter says so, or when a SIGKILL that Troupe did not send comes with a kill for
// memory on this machine or with a peak of at least half the memory there is. STOPPED when Troupe sent the signal.
v1::ExitCause CauseOf(const ExitEvidence& evidence);

// "1.5 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace troupe::keeper
