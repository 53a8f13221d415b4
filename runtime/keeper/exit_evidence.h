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
  // Processes of this machine that the kernel killed for memory since the worker started; -1: no such counter.
  int64_t machine_oom_kills = -1;
  bool killed_by_troupe = false;
  int tree_processes_killed = 0;  // Processes it left behind.
};

// OUT_OF_MEMORY when the group's counter says so. Without that counter a SIGKILL that Troupe did not send is taken for
// it when the machine's counter has moved or, without either counter, when the peak was at least half the memory there
// is. STOPPED when Troupe sent the signal.
v1::ExitCause CauseOf(const ExitEvidence& evidence);

// "1.5 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace troupe::keeper
