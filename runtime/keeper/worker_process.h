// SPDX-License-Identifier: Apache-2.0
// WorkerProcess: one worker as its keeper holds it: the process, its output, its control group, and what is known of
// its end.
#pragma once

#include <sys/resource.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/monotonic.h"
#include "runtime/keeper/exit_evidence.h"
#include "runtime/keeper/spawn.h"
#include "runtime/keeper/worker_cgroup.h"
#include "runtime/keeper/worker_log.h"
#include "troupe/v1/keeper.pb.h"

namespace troupe::keeper {

class WorkerProcess {
 public:
  // The variable that marks every process of every worker of a keeper, with the keeper's runtime folder as its value.
  static constexpr char kKeeperVariable[] = "TROUPE_KEEPER";

  // `cgroups` may be null. Where a limit cannot be put in force a line of the worker's log says so.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const v1::KeeperSpawn& spawn,
                                                              const std::string& runtime_dir, CgroupFolder* cgroups);

  const ActorLife& actor() const { return actor_; }
  pid_t pid() const { return process_.pid; }
  int pidfd() const { return process_.pidfd.get(); }
  int output(OutputStream stream) const;
  int exec_status() const { return process_.exec_status.get(); }
  bool exited() const { return exited_; }

  // UNAVAILABLE: not known yet; otherwise the descriptor is closed and the answer is final.
  absl::Status FinishExec();
  // Reads at most a chunk of output into the log. False when that stream has ended (and is closed now).
  bool CopyOutput(OutputStream stream, absl::Time wall, Monotonic now);
  // Its own process was reaped.
  void SetExited(int wait_status, const rusage& usage);
  void SetKilledDescendants(int count) { evidence_.tree_processes_killed = count; }

  // Ends its own process and, with a control group, all others at once.
  void Kill();
  // Whether its control group (if it has one) holds no process; kills what is left in it.
  bool GroupIsEmpty();
  // After its tree is gone: writes the rest of its output, removes its group and returns the evidence.
  ExitEvidence Conclude(absl::Time wall, Monotonic now);

 private:
  WorkerProcess(const v1::KeeperSpawn& spawn, WorkerLogOptions log);
  void MakeCgroup(CgroupFolder* cgroups, const CgroupLimits& limits);
  void Warn(const std::string& text);

  ActorLife actor_;
  ProcessSpec spec_;
  StartedProcess process_;
  WorkerLog log_;
  std::unique_ptr<WorkerCgroup> cgroup_;
  int64_t memory_bytes_max_ = 0;
  int64_t machine_oom_kills_at_start_ = -1;
  bool exited_ = false;
  ExitEvidence evidence_;
};

}  // namespace troupe::keeper
