// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/cpu_list.h"
#include "runtime/env/memory.h"
#include "runtime/keeper/process_table.h"

namespace troupe::keeper {
namespace {

// One read; a pipe holds 64 KiB, so that one worker's flood leaves the keeper time for the others.
constexpr size_t kOutputChunkBytes = 64 * 1024;
// Of the output that is still in a pipe when the tree is gone: bounded, because a descriptor may have been passed on to
// a process outside the tree that goes on writing.
constexpr int kFinalChunksMax = 64;

}  // namespace

WorkerProcess::WorkerProcess(const v1::KeeperSpawn& spawn, WorkerLogOptions log)
    : actor_(ActorLife::FromProto(spawn.actor())), log_(std::move(log)), memory_bytes_max_(spawn.memory_bytes_max()) {
  spec_.argv.assign(spawn.argv().begin(), spawn.argv().end());
  spec_.environment.assign(spawn.environment().begin(), spawn.environment().end());
  spec_.working_directory = spawn.working_directory();
  spec_.token = spawn.token();
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const v1::KeeperSpawn& spawn,
                                                                    const std::string& runtime_dir,
                                                                    CgroupFolder* cgroups) {
  WorkerLogOptions log{.path = spawn.log_path()};
  if (spawn.log_bytes_max() > 0) log.file_bytes_max = spawn.log_bytes_max();
  if (spawn.log_files_max() > 0) log.files_max = spawn.log_files_max();
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(spawn, std::move(log)));
  worker->spec_.environment.push_back(std::string(kKeeperVariable) + "=" + runtime_dir);
  worker->spec_.cpus = ParseCpuList(spawn.cpus());
  worker->MakeCgroup(cgroups, {spawn.memory_bytes_max(), spawn.cpus(), spawn.cpu_weight()});
  worker->machine_oom_kills_at_start_ = KernelOomKills();
  absl::StatusOr<StartedProcess> process = StartProcess(worker->spec_);
  worker->spec_.token.clear();
  if (!process.ok()) {
    if (worker->cgroup_ != nullptr) worker->cgroup_->Remove();
    return process.status();
  }
  worker->process_ = *std::move(process);
  return worker;
}

// A group that cannot be made (too many, say) is done without.
void WorkerProcess::MakeCgroup(CgroupFolder* cgroups, const CgroupLimits& limits) {
  absl::Status memory = absl::UnavailableError("it has no control groups"), cpu = memory;
  if (cgroups != nullptr) {
    absl::StatusOr<std::unique_ptr<WorkerCgroup>> group = cgroups->Create(limits);
    memory = cpu = group.status();
    if (group.ok()) {
      cgroup_ = *std::move(group);
      spec_.cgroup = cgroup_->folder();
      spec_.cgroup_procs_files = cgroup_->procs_files();
      memory = cgroup_->memory_limit();
      cpu = cgroup_->cpu_limit();
    }
  }
  if (limits.memory_bytes_max > 0 && !memory.ok()) {
    Warn("the memory limit of " + std::to_string(limits.memory_bytes_max) +
         " bytes (resources.memory) is not in force on this node: " + MessageOf(memory));
  }
  if (limits.cpu_weight > 0 && !cpu.ok()) Warn("its weight of CPUs is not in force on this node: " + MessageOf(cpu));
  // Without a group it is held there all the same, until it takes others itself.
  if (!limits.cpus.empty() && !cpu.ok()) {
    Warn("nothing keeps it on its processors " + limits.cpus + " but its own affinity: " + MessageOf(cpu));
  }
}

void WorkerProcess::Warn(const std::string& text) {
  log_.Append(OutputStream::kStderr, "warning: " + text + "\n", WallNow(), MonotonicNow());
}

int WorkerProcess::output(OutputStream stream) const {
  return stream == OutputStream::kStdout ? process_.stdout_pipe.get() : process_.stderr_pipe.get();
}

absl::Status WorkerProcess::FinishExec() {
  if (!process_.exec_status.valid()) return absl::OkStatus();
  absl::Status status = ReadExecStatus(process_.exec_status.get(), spec_);
  if (!absl::IsUnavailable(status)) process_.exec_status.Reset();
  return status;
}

bool WorkerProcess::CopyOutput(OutputStream stream, absl::Time wall, Monotonic now) {
  UniqueFd& pipe = stream == OutputStream::kStdout ? process_.stdout_pipe : process_.stderr_pipe;
  if (!pipe.valid()) return false;
  static char chunk[kOutputChunkBytes];
  ssize_t n = ::read(pipe.get(), chunk, sizeof(chunk));
  if (n > 0) {
    log_.Append(stream, std::string_view(chunk, n), wall, now);
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  pipe.Reset();
  return false;
}

void WorkerProcess::SetExited(int wait_status, const rusage& usage) {
  exited_ = true;
  evidence_.signaled = WIFSIGNALED(wait_status);
  if (evidence_.signaled) {
    evidence_.signal = WTERMSIG(wait_status);
  } else {
    evidence_.exit_code = WEXITSTATUS(wait_status);
  }
  evidence_.peak_rss_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

void WorkerProcess::Kill() {
  if (!exited_) ::kill(process_.pid, SIGKILL);
  if (cgroup_ != nullptr) cgroup_->Kill();
}

bool WorkerProcess::GroupIsEmpty() {
  if (cgroup_ == nullptr || cgroup_->Empty()) return true;
  cgroup_->Kill();
  return false;
}

ExitEvidence WorkerProcess::Conclude(absl::Time wall, Monotonic now) {
  for (OutputStream stream : {OutputStream::kStdout, OutputStream::kStderr}) {
    for (int i = 0; i < kFinalChunksMax && output(stream) >= 0; ++i) {
      if (!CopyOutput(stream, wall, now)) break;
    }
  }
  process_.stdout_pipe.Reset();
  process_.stderr_pipe.Reset();
  log_.Finish(wall, now);
  int64_t machine_kills = KernelOomKills();
  if (machine_oom_kills_at_start_ >= 0 && machine_kills >= machine_oom_kills_at_start_) {
    evidence_.machine_oom_kills = machine_kills - machine_oom_kills_at_start_;
  }
  evidence_.memory_bytes = memory_bytes_max_ > 0 ? memory_bytes_max_ : MachineMemoryBytes();
  if (cgroup_ != nullptr) {
    evidence_.group_oom_kills = cgroup_->OomKills();
    cgroup_->Remove();
  }
  return evidence_;
}

}  // namespace troupe::keeper
