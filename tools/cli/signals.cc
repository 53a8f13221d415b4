// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/base/check.h"

namespace troupe::cli {

SignalWaiter::SignalWaiter() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  wake_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  TROUPE_CHECK(signal_fd_.valid() && wake_fd_.valid(), "no descriptors left for signals");
}

int SignalWaiter::Wait(absl::Duration timeout) {
  pollfd fds[] = {{signal_fd_.get(), POLLIN, 0}, {wake_fd_.get(), POLLIN, 0}};
  poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  uint64_t wakes = 0;
  [[maybe_unused]] ssize_t drained = read(wake_fd_.get(), &wakes, sizeof(wakes));
  signalfd_siginfo info{};
  return read(signal_fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

void SignalWaiter::Wake() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_fd_.get(), &one, sizeof(one));
}

}  // namespace troupe::cli
