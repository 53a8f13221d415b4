// SPDX-License-Identifier: Apache-2.0
// ChildProgram: a user's program in a process group of its own, with lines on its stdin and stdout; stderr is ours. It
// inherits no descriptor but these, and no variable whose name begins with TROUPE_ (so never the token).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

// Longest line a program may print; more is nonsense.
inline constexpr size_t kProgramLineBytesMax = 4 << 20;

// Not thread-safe. The destructor kills the whole group and reaps the program.
class ChildProgram {
 public:
  // NOT_FOUND: no such program.
  static absl::StatusOr<std::unique_ptr<ChildProgram>> Start(const std::vector<std::string>& argv);
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  void QueueLine(const std::string& line) { unsent_ += line + "\n"; }

  // Until one of them has printed, ended or taken what was queued, or the time is over; none: returns at once.
  static void WaitAny(const std::vector<ChildProgram*>& programs, absl::Duration timeout);
  // Writes what the pipe takes now. False: the program has closed it.
  bool PumpInput();
  // Reads what there is; whole lines go to `lines`. False: the program has closed its stdout.
  bool PumpOutput(std::deque<std::string>& lines);
  // How it ended, for people: "exit status 3", "signal 9". Call after a Pump that returned false.
  std::string Ending();

 private:
  ChildProgram(int pid, UniqueFd input, UniqueFd output)
      : pid_(pid), stdin_(std::move(input)), stdout_(std::move(output)) {}
  void KillAndReap();

  int pid_;
  bool reaped_ = false;
  int status_ = 0;
  UniqueFd stdin_, stdout_;
  std::string unsent_;
  std::string partial_;
};

}  // namespace troupe
