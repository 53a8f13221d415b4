// SPDX-License-Identifier: Apache-2.0
// ChildProgram: a user's program in a process group of its own, with lines on its stdin and stdout; its stderr is
// passed on to ours. It inherits no descriptor but these, and no variable whose name begins with TROUPE_ (so never the
// token).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

// Longest line a program may print; more is nonsense.
inline constexpr size_t kProgramLineBytesMax = 4 << 20;

struct ChildProgramOptions {
  std::vector<std::string> argv;
  std::string working_dir;  // "": ours
};

// Not thread-safe. The destructor kills the whole group and reaps the program.
class ChildProgram {
 public:
  // NOT_FOUND: no such program or folder.
  static absl::StatusOr<std::unique_ptr<ChildProgram>> Start(const ChildProgramOptions& options);
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // The caller keeps the queue short: see queued_bytes.
  void QueueLine(std::string_view line);
  size_t queued_bytes() const { return unsent_.size() - sent_bytes_; }

  // Until one of them has printed, ended or taken what was queued, or the time is over; none: returns at once.
  static void WaitAny(const std::vector<ChildProgram*>& programs, absl::Duration timeout);
  // Writes what the pipe takes now. False: the program has closed it.
  bool PumpInput();
  // Reads what there is on stdout and stderr; whole lines of stdout go to `lines`. False: the program has closed its
  // stdout, or printed a line that is too long.
  bool PumpOutput(std::deque<std::string>& lines);
  // How it ended, for people, with the last thing it said on stderr: "signal 9", "exit status 1: KeyError: 'x'". Call
  // after a Pump that returned false.
  std::string Ending();

 private:
  ChildProgram(int pid, UniqueFd input, UniqueFd output, UniqueFd errors)
      : pid_(pid), stdin_(std::move(input)), stdout_(std::move(output)), stderr_(std::move(errors)) {}
  void PumpErrors();
  void NoteErrors(std::string_view bytes);
  void KillAndReap();

  int pid_;
  bool reaped_ = false;
  int status_ = 0;
  UniqueFd stdin_, stdout_, stderr_;
  std::string unsent_;  // from sent_bytes_ on
  size_t sent_bytes_ = 0;
  std::string partial_;
  bool line_too_long_ = false;
  std::string error_line_;       // the one that is not ended yet; its beginning
  std::string last_error_line_;  // the last that is not empty
};

}  // namespace troupe
