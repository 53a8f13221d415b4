// SPDX-License-Identifier: Apache-2.0
// The processes of this machine as /proc shows them.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace troupe::keeper {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool zombie = false;
};

// One pass over /proc. A process that exists during the whole pass is in it; one that comes or goes meanwhile may be.
std::vector<ProcessEntry> ReadProcessTable();

// The processes below `root` in `table`, without `root`, parents before children.
std::vector<pid_t> DescendantsOf(const std::vector<ProcessEntry>& table, pid_t root);

// Whether the environment that `pid` was started with holds `entry` ("KEY=value"). False when it cannot be read.
bool HasEnvironmentEntry(pid_t pid, std::string_view entry);

// How many processes the kernel has killed for memory since it started, on the whole machine; -1 when unknown.
int64_t KernelOomKills();

}  // namespace troupe::keeper
