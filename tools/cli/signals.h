// SPDX-License-Identifier: Apache-2.0
// SignalWaiter: SIGINT and SIGTERM as events of one loop, instead of handlers.
#pragma once

#include "absl/time/time.h"
#include "runtime/env/unique_fd.h"

namespace troupe::cli {

// Construct before any thread is started: the signals are blocked in this thread and those it starts.
class SignalWaiter {
 public:
  SignalWaiter();
  // Waits for a signal, a Wake() or the timeout. Returns the signal's number or 0.
  int Wait(absl::Duration timeout);
  // From any thread: the current or next Wait returns.
  void Wake();

 private:
  UniqueFd signal_fd_;
  UniqueFd wake_fd_;
};

}  // namespace troupe::cli
