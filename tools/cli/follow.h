// SPDX-License-Identifier: Apache-2.0
// Follow: shows a job until it has ended: a live panel on a terminal, one line a step on a pipe.
#pragma once

#include <functional>
#include <string>

#include "tools/cli/head_client.h"
#include "tools/cli/signals.h"

namespace troupe::cli {

struct FollowOptions {
  std::string output_dir;  // Its metrics.jsonl is read when it is on this machine; "" or remote: head's news only.
  bool quiet = false;
  bool json_summary = false;
  // Asked at every turn: not OK when no end of the job can come any more (the head of this process has failed).
  std::function<absl::Status()> broken = [] { return absl::OkStatus(); };
  bool owns_job = true;  // Ctrl-C stops the job (run); otherwise it only stops following (submit --follow).
};

// Returns the exit status. SIGINT once: stop at a safe point and checkpoint; twice: now.
int Follow(const HeadClient& head, const std::string& job_id, const FollowOptions& options, SignalWaiter& signals);

}  // namespace troupe::cli
