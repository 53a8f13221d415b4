// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "runtime/env/errno_status.h"

namespace troupe::keeper {
namespace {

enum class Stage : int { kDescriptors, kParent, kCgroup, kFolder, kExec };

// What the child writes when it cannot go on.
struct Failure {
  Stage stage;
  int error;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void Fail(int status_fd, Stage stage) {
  Failure failure{stage, errno};
  ssize_t ignored = ::write(status_fd, &failure, sizeof(failure));
  static_cast<void>(ignored);
  ::_exit(127);
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Everything the child needs, made before the fork.
struct ChildPlan {
  pid_t parent;
  int in, out, err, token, status;
  const ProcessSpec* spec;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<std::string> procs_files;
  cpu_set_t cpus;
};

cpu_set_t CpuSetOf(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  return set;
}

// To enter a group takes the kernel a grace period of RCU (8 ms and more), to be born in one takes nothing.
pid_t ForkInto(const std::string& cgroup) {
  UniqueFd folder(::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return -1;
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(folder.get());
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof(args)));
}

void Enter(const std::string& procs_file, int status_fd) {
  int fd = ::open(procs_file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, "0", 1) != 1) Fail(status_fd, Stage::kCgroup);
  ::close(fd);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ResetSignals();
  ::setsid();
  // A descriptor must not be overwritten before it was duplicated: lift all of them above the fixed ones first.
  constexpr int kAboveFixed = 10;
  int status = ::fcntl(plan.status, F_DUPFD_CLOEXEC, kAboveFixed);
  int in = ::fcntl(plan.in, F_DUPFD_CLOEXEC, kAboveFixed);
  int out = ::fcntl(plan.out, F_DUPFD_CLOEXEC, kAboveFixed);
  int err = ::fcntl(plan.err, F_DUPFD_CLOEXEC, kAboveFixed);
  int token = ::fcntl(plan.token, F_DUPFD_CLOEXEC, kAboveFixed);
  if (status < 0) ::_exit(127);
  if (::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0 || ::dup2(token, kTokenFd) < 0) {
    Fail(status, Stage::kDescriptors);
  }
  ::syscall(SYS_close_range, kTokenFd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The parent may have died before the signal was asked for.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != plan.parent) Fail(status, Stage::kParent);
  for (const std::string& file : plan.procs_files) Enter(file, status);
  // What cannot be had is done without; the worker's log has been told (WorkerProcess).
  if (CPU_COUNT(&plan.cpus) > 0) ::sched_setaffinity(0, sizeof(plan.cpus), &plan.cpus);
  const std::string& folder = plan.spec->working_directory;
  if (!folder.empty() && ::chdir(folder.c_str()) != 0) Fail(status, Stage::kFolder);
  ::execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  Fail(status, Stage::kExec);
}

}  // namespace

absl::StatusOr<StartedProcess> StartProcess(const ProcessSpec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty()) return absl::InvalidArgumentError("no program was named");
  if (spec.token.size() > kTokenBytesMax) return absl::InvalidArgumentError("the token is longer than 4096 bytes");
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus(errno, "/dev/null");
  absl::StatusOr<Pipe> out = MakePipe(), err = MakePipe(), status = MakePipe(), token = MakePipe();
  for (const auto* pipe : {&out, &err, &status, &token}) {
    if (!pipe->ok()) return pipe->status();
  }
  if (::write(token->write.get(), spec.token.data(), spec.token.size()) != static_cast<ssize_t>(spec.token.size())) {
    return absl::InternalError("the token could not be written to its pipe");
  }
  token->write.Reset();

  std::vector<std::string> environment = spec.environment;
  environment.push_back(std::string(kTokenFdVariable) + "=" + std::to_string(kTokenFd));
  ChildPlan plan{::getpid(),          null.get(), out->write.get(),    err->write.get(),      token->read.get(),
                 status->write.get(), &spec,      Pointers(spec.argv), Pointers(environment), spec.cgroup_procs_files,
                 CpuSetOf(spec.cpus)};
  pid_t pid = spec.cgroup.empty() ? -1 : ForkInto(spec.cgroup);
  if (pid < 0) {
    // No group, a kernel that does not know this (before 5.7), or a failure that comes again and is told then.
    if (!spec.cgroup.empty()) plan.procs_files.push_back(spec.cgroup + "/cgroup.procs");
    pid = ::fork();
  }
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) RunChild(plan);

  StartedProcess started;
  started.pid = pid;
  // The child is not reaped before the caller does so: its pid cannot have passed to another process.
  started.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!started.pidfd.valid()) {
    absl::Status failure = ErrnoStatus(errno, "pidfd_open");
    ::kill(pid, SIGKILL);
    return failure;
  }
  started.stdout_pipe = std::move(out->read);
  started.stderr_pipe = std::move(err->read);
  started.exec_status = std::move(status->read);
  for (const UniqueFd* fd : {&started.stdout_pipe, &started.stderr_pipe, &started.exec_status}) {
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  return started;
}

absl::Status ReadExecStatus(int exec_status, const ProcessSpec& spec) {
  Failure failure;
  ssize_t n = ::read(exec_status, &failure, sizeof(failure));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::UnavailableError("not known yet");
  if (n != static_cast<ssize_t>(sizeof(failure))) return absl::OkStatus();
  std::string reason = std::strerror(failure.error);
  switch (failure.stage) {
    case Stage::kDescriptors:
      return absl::InternalError("its standard descriptors could not be set: " + reason);
    case Stage::kParent:
      return absl::InternalError("its keeper ended meanwhile");
    case Stage::kCgroup:
      return absl::InternalError("it could not enter its control group: " + reason);
    case Stage::kFolder:
      return absl::NotFoundError("working directory " + spec.working_directory + ": " + reason);
    case Stage::kExec:
      return failure.error == EACCES ? absl::PermissionDeniedError("program " + spec.argv[0] + ": " + reason)
                                     : absl::NotFoundError("program " + spec.argv[0] + ": " + reason);
  }
  return absl::InternalError("unknown failure");
}

}  // namespace troupe::keeper
