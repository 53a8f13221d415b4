// SPDX-License-Identifier: Apache-2.0
// RunKeeper: the keeper's process. It is the parent of every worker of a node, reads their output, sees them exit,
// kills what they leave behind, and tells the node agent. See runtime/agent/DESIGN.md.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace troupe::keeper {

struct KeeperOptions {
  std::string runtime_dir;  // The agent's runtime folder, absolute; it exists.
  // How long to wait for the first agent.
  absl::Duration first_agent_grace = absl::Seconds(20);
  bool use_cgroups = true;  // Where they can be made.
};

// Serves until it has ended; then no worker is left. To be called on the only thread of a process, which becomes a
// subreaper. ALREADY_EXISTS: another keeper lives in the folder. FAILED_PRECONDITION: one that died left a process that
// does not end.
absl::Status RunKeeper(const KeeperOptions& options);

}  // namespace troupe::keeper
