// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/private_folder.h"

#include <unistd.h>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/env/random.h"

namespace troupe::cli {
namespace {

constexpr char kLockName[] = "/owner.lock";

std::string Prefix() { return "troupe-run-" + std::to_string(getuid()) + "-"; }

std::string Base() {
  std::string named = EnvironmentVariable("XDG_RUNTIME_DIR");
  return named.empty() || !FileExists(named) ? "/tmp" : named;
}

void RemoveAbandoned(const std::string& base) {
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(base);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    std::string folder = base + "/" + name;
    // Without its lock file the folder is one that somebody makes right now.
    if (name.rfind(Prefix(), 0) != 0 || !FileExists(folder + kLockName)) continue;
    absl::StatusOr<FileLock> lock = FileLock::Acquire(folder + kLockName);
    if (lock.ok()) RemoveTree(folder).IgnoreError();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Make() {
  std::string base = Base();
  RemoveAbandoned(base);
  std::string path = base + "/" + Prefix() + RandomHex(4);
  TROUPE_RETURN_IF_ERROR(MakeDirs(path, 0700));
  TROUPE_ASSIGN_OR_RETURN(FileLock lock, FileLock::Acquire(path + kLockName));
  return std::unique_ptr<PrivateFolder>(new PrivateFolder(std::move(path), std::move(lock)));
}

PrivateFolder::~PrivateFolder() { RemoveTree(path_).IgnoreError(); }

}  // namespace troupe::cli
