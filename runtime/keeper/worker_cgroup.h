// SPDX-License-Identifier: Apache-2.0
// Control groups of workers, where this process may make them: they end a process tree at once, limit its memory and
// tell when the kernel killed a process for memory. Everything works without them, more slowly and with less to say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace troupe::keeper {

// The group of one worker. Removed (with Remove) when its processes are gone; not thread-safe.
class WorkerCgroup {
 public:
  // In which the worker's first process is born.
  const std::string& folder() const { return tree_folder_; }
  // The files into which it writes "0" before it executes its program: those of other groups of this worker.
  const std::vector<std::string>& procs_files() const { return procs_files_; }
  // Why the memory limit that was asked for is not in force; OK: it is, or none was asked for.
  const absl::Status& memory_limit() const { return memory_limit_; }

  // Kills every process in it; what is forked meanwhile too.
  void Kill();
  // Whether no process is in it.
  bool Empty() const;
  // How many of its processes the kernel killed for memory; -1 when unknown: there is no memory controller, or one of
  // version 1 and no limit.
  int64_t OomKills() const;
  void Remove();

 private:
  friend class CgroupFolder;
  std::string tree_folder_;    // version 2
  std::string memory_folder_;  // version 2 with the memory controller, or version 1; "" when there is none
  bool memory_is_v2_ = false;
  absl::Status memory_limit_;
  std::vector<std::string> procs_files_;
};

// The groups of one keeper, in a folder of their own below the keeper's own group.
class CgroupFolder {
 public:
  // UNAVAILABLE, with the reason, when no group can be made here. Ends and removes what a keeper of the same `name`
  // left.
  static absl::StatusOr<std::unique_ptr<CgroupFolder>> Open(const std::string& name);
  ~CgroupFolder();
  CgroupFolder(const CgroupFolder&) = delete;
  CgroupFolder& operator=(const CgroupFolder&) = delete;

  // memory_bytes_max: 0 for no limit. Then there is no group of version 1: to enter one takes 8 ms and more.
  absl::StatusOr<std::unique_ptr<WorkerCgroup>> Create(int64_t memory_bytes_max);

 private:
  CgroupFolder() = default;

  std::string tree_folder_;
  std::string memory_folder_;
  bool memory_is_v2_ = false;
  uint64_t next_ = 1;
};

}  // namespace troupe::keeper
