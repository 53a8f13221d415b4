// SPDX-License-Identifier: Apache-2.0
// What concerns the process as a whole: its program, where its code is from, signals that ask it to end, and glibc's
// memory allocator.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

// The absolute path of the program that this process runs; "" when the system does not tell.
std::string OwnProgramPath();

// The folder of the shared library that this code was loaded from (libtroupe.so); "": it is a part of the program.
std::string LibraryFolder();

// Calls back on a thread of its own for each SIGTERM and SIGINT. One at a time in a process. The signals stay unblocked
// and their handlers do not outlive exec, so that child processes are not affected.
class TerminationSignals {
 public:
  static absl::StatusOr<std::unique_ptr<TerminationSignals>> Install(std::function<void(int signal)> callback);
  // Puts the former handlers back.
  ~TerminationSignals();

 private:
  TerminationSignals() = default;
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::thread thread_;
};

// A descriptor that becomes readable when that process ends. NOT_FOUND: there is no such process.
absl::StatusOr<UniqueFd> OpenProcess(pid_t pid);

// Raises the thresholds above which glibc asks the kernel for each block anew and gives freed memory back: with its own
// defaults, messages of 1 to 4 MiB are about 15 times slower. Once, early in main.
void TuneMalloc();

}  // namespace troupe
