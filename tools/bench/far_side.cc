// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/far_side.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "runtime/env/errno_status.h"

namespace troupe::bench {

absl::StatusOr<FarSide> FarSide::Start(const std::function<void()>& run) {
  pid_t parent = ::getpid();
  pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "cannot start another process");
  if (child > 0) return FarSide(child);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  run();
  while (true) ::pause();
}

FarSide::~FarSide() {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace troupe::bench
