// SPDX-License-Identifier: Apache-2.0
// TemporaryFolder: a private folder that goes with its owner: at its end, or, when its process was killed, when another
// process makes one of that name.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/env/file_lock.h"

namespace troupe {

class TemporaryFolder {
 public:
  // "<name>-XXXXXX" under $TMPDIR or /tmp, mode 0700. Removes what killed owners left of that name.
  static absl::StatusOr<TemporaryFolder> Make(std::string_view name);

  TemporaryFolder(TemporaryFolder&&) = default;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  static void Sweep(const std::string& base, const std::string& name);

  std::string path_;
  FileLock lock_;  // Not held: this was moved from.
};

}  // namespace troupe
