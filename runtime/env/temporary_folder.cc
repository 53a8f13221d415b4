// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/temporary_folder.h"

#include <vector>

#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

// Of a folder that another process took for a dead one's, between its making and its lock.
constexpr int kTries = 4;

std::string LockOf(const std::string& folder) { return folder + "/owner.lock"; }

}  // namespace

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(std::string_view name) {
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    TROUPE_ASSIGN_OR_RETURN(std::string path, MakeTemporaryDirectory(name));
    absl::StatusOr<FileLock> lock = FileLock::Acquire(LockOf(path));
    if (lock.ok()) {
      const size_t base_bytes = path.rfind('/');
      Sweep(path.substr(0, base_bytes), std::string(name));
      return TemporaryFolder(std::move(path), *std::move(lock));
    }
    status = lock.status();
  }
  return status;
}

TemporaryFolder::~TemporaryFolder() {
  if (lock_.held()) (void)RemoveTree(path_);
}

// A living owner holds its lock; a folder without one is just being made.
void TemporaryFolder::Sweep(const std::string& base, const std::string& name) {
  absl::StatusOr<std::vector<std::string>> entries = ListDirectory(base);
  if (!entries.ok()) return;
  for (const std::string& entry : *entries) {
    const std::string folder = base + "/" + entry;
    if (entry.rfind(name + "-", 0) != 0 || !FileExists(LockOf(folder))) continue;
    absl::StatusOr<FileLock> lock = FileLock::Acquire(LockOf(folder));
    if (lock.ok()) (void)RemoveTree(folder);
  }
}

}  // namespace troupe
