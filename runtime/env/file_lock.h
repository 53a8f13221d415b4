// SPDX-License-Identifier: Apache-2.0
// FileLock: one holder of a folder or a role on this machine (flock(2)); the kernel frees it when the holder ends.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

class FileLock {
 public:
  // Creates `path` when needed and locks it without waiting. ALREADY_EXISTS when another process holds it; the message
  // says so of `holder` ("another agent"), with the note that it left ("pid 123").
  static absl::StatusOr<FileLock> Acquire(const std::string& path, const std::string& holder = "another process");

  // Lets go; the file stays (removing it would let two holders lock two files of one name).
  void Release() { fd_.Reset(); }
  bool held() const { return fd_.valid(); }

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace troupe
