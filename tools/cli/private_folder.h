// SPDX-License-Identifier: Apache-2.0
// PrivateFolder: the folder of a private head and node, under $XDG_RUNTIME_DIR or /tmp, removed with the object. Those
// of processes that were killed are removed by the next one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/file_lock.h"

namespace troupe::cli {

class PrivateFolder {
 public:
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make();
  ~PrivateFolder();
  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileLock lock_;  // says that the owner lives
};

}  // namespace troupe::cli
