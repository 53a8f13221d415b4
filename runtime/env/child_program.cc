// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/shown_text.h"
#include "runtime/base/status.h"
#include "runtime/env/errno_status.h"

extern char** environ;

namespace troupe {
namespace {

constexpr size_t kPumpBytesMax = 1 << 20;

// How often, 2 ms apart, a program is looked at before it is killed.
constexpr int kEndingPolls = 25;

// Bytes of a line of stderr that are kept to be shown.
constexpr size_t kErrorLineBytesMax = 300;

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::vector<char*> CleanEnvironment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "TROUPE_", 7) != 0) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProgram>> ChildProgram::Start(const ChildProgramOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // a program that went away is an EPIPE
  TROUPE_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  TROUPE_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  TROUPE_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  std::vector<char*> arguments;
  for (const std::string& argument : options.argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment = CleanEnvironment();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input.read.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, errors.write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!options.working_dir.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.working_dir.c_str());
  }
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  pid_t pid = 0;
  int error = posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return ErrnoStatus(error, "cannot start '" + options.argv[0] + "'" +
                                  (options.working_dir.empty() ? "" : " in " + options.working_dir));
  }
  for (int fd : {input.write.get(), output.read.get(), errors.read.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildProgram>(
      new ChildProgram(pid, std::move(input.write), std::move(output.read), std::move(errors.read)));
}

ChildProgram::~ChildProgram() { KillAndReap(); }

void ChildProgram::WaitAny(const std::vector<ChildProgram*>& programs, absl::Duration timeout) {
  std::vector<pollfd> fds;
  for (const ChildProgram* program : programs) {
    fds.push_back({program->stdout_.get(), POLLIN, 0});
    fds.push_back({program->stderr_.get(), POLLIN, 0});  // -1 when it is closed: not looked at
    if (program->queued_bytes() > 0) fds.push_back({program->stdin_.get(), POLLOUT, 0});
  }
  int milliseconds = static_cast<int>(absl::ToInt64Milliseconds(std::max(timeout, absl::ZeroDuration()))) + 1;
  if (!fds.empty()) ::poll(fds.data(), fds.size(), milliseconds);
}

// What was sent is moved away only when it is the greater part: the cost of all moves stays below that of the bytes.
void ChildProgram::QueueLine(std::string_view line) {
  if (sent_bytes_ * 2 >= unsent_.size()) {
    unsent_.erase(0, sent_bytes_);
    sent_bytes_ = 0;
  }
  unsent_.append(line).push_back('\n');
}

bool ChildProgram::PumpInput() {
  while (queued_bytes() > 0) {
    ssize_t written = ::write(stdin_.get(), unsent_.data() + sent_bytes_, queued_bytes());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno == EAGAIN;
    sent_bytes_ += static_cast<size_t>(written);
  }
  return true;
}

bool ChildProgram::PumpOutput(std::deque<std::string>& lines) {
  PumpErrors();
  char buffer[1 << 16];
  for (size_t taken = 0; taken < kPumpBytesMax; taken += sizeof(buffer)) {
    ssize_t got = ::read(stdout_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    partial_.append(buffer, static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(partial_.substr(begin, end - begin));
    }
    partial_.erase(0, begin);
    line_too_long_ = partial_.size() > kProgramLineBytesMax;
    if (line_too_long_) return false;
  }
  return true;  // The rest comes with the next call: a program that floods does not keep its reader.
}

void ChildProgram::PumpErrors() {
  char buffer[1 << 14];
  for (size_t taken = 0; taken < kPumpBytesMax && stderr_.valid(); taken += sizeof(buffer)) {
    ssize_t got = ::read(stderr_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return stderr_.Reset();
    NoteErrors({buffer, static_cast<size_t>(got)});
    for (ssize_t passed = 0; passed < got;) {
      ssize_t written = ::write(STDERR_FILENO, buffer + passed, static_cast<size_t>(got - passed));
      if (written < 0 && errno != EINTR) break;  // nobody hears us either
      passed += std::max<ssize_t>(written, 0);
    }
  }
}

void ChildProgram::NoteErrors(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t end = std::min(bytes.find('\n'), bytes.size());
    error_line_.append(bytes.substr(0, std::min(end, kErrorLineBytesMax - error_line_.size())));
    if (error_line_.find_first_not_of(" \t\r") != std::string::npos) last_error_line_ = error_line_;
    if (end < bytes.size()) error_line_.clear();
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
}

std::string ChildProgram::Ending() {
  KillAndReap();
  if (line_too_long_) {
    return "killed, because it printed a line of more than " + std::to_string(kProgramLineBytesMax >> 20) + " MiB";
  }
  std::string ending = WIFEXITED(status_) ? "exit status " + std::to_string(WEXITSTATUS(status_))
                                          : "signal " + std::to_string(WTERMSIG(status_));
  return last_error_line_.empty() ? ending : ending + ": " + ShownText(last_error_line_, kErrorLineBytesMax);
}

// It may be ending by itself: what it says then is worth more than our SIGKILL.
void ChildProgram::KillAndReap() {
  if (reaped_) return;
  stdin_.Reset();
  for (int i = 0; i < kEndingPolls; ++i) {
    PumpErrors();
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) break;
    ::poll(nullptr, 0, 2);
  }
  ::kill(-pid_, SIGKILL);  // its children
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  PumpErrors();
}

}  // namespace troupe
