// SPDX-License-Identifier: Apache-2.0
// Control groups of workers, where this process may make them: they end a process tree at once, limit its memory and
// processors and tell when the kernel killed a process for memory. Everything works without them, more slowly and with
// less to say. Version 2 where its controllers may be used (the keeper's group is the root, or delegated and empty but
// for it), else version 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace troupe::keeper {

// What a worker's group is to put in force; 0 and "" nothing.
struct CgroupLimits {
  int64_t memory_bytes_max = 0;
  std::string cpus;    // "0-3,8"
  int cpu_weight = 0;  // 100: that of a group without one.
};

// The group of one worker. Removed (with Remove) when its processes are gone; not thread-safe.
class WorkerCgroup {
 public:
  // In which the worker's first process is born.
  const std::string& folder() const { return tree_folder_; }
  // The files into which it writes "0" before it executes its program: those of other groups of this worker.
  const std::vector<std::string>& procs_files() const { return procs_files_; }
  // Why the limit that was asked for is not in force; OK: it is, or none was asked for.
  const absl::Status& memory_limit() const { return memory_limit_; }
  const absl::Status& cpu_limit() const { return cpu_limit_; }

  // Kills every process in it; what is forked meanwhile too.
  void Kill();
  // Whether no process is in it.
  bool Empty() const;
  // How many of its processes the kernel killed for memory; -1 when unknown: there is no memory controller, or one of
  // version 1 and no limit.
  int64_t OomKills() const;
  // What the kernel does not let go of yet is removed with a later group.
  void Remove();

 private:
  friend class CgroupFolder;
  std::shared_ptr<std::vector<std::string>> busy_;  // Of the folder: groups that could not be removed yet.
  std::string tree_folder_;                         // version 2
  std::string memory_folder_;  // version 2 with the memory controller, or version 1; "" when there is none
  bool memory_is_v2_ = false;
  absl::Status memory_limit_;
  absl::Status cpu_limit_;
  std::vector<std::string> procs_files_;
  std::vector<std::string> v1_folders_;
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

  // There are groups of version 1 only for what is asked: to enter one takes 8 ms and more.
  absl::StatusOr<std::unique_ptr<WorkerCgroup>> Create(const CgroupLimits& limits);

 private:
  struct Controller {
    std::string folder;  // In which the workers' groups are made.
    bool is_v2 = false;
  };
  using Settings = std::vector<std::pair<std::string, std::string>>;  // File and content.

  CgroupFolder() = default;
  void RemoveBusy();
  void FindController(const std::string& controller, const std::string& own, const std::string& name);
  const Controller* Find(const std::string& controller) const;
  // Puts the settings in force for the group `worker`, in which it is from its start.
  absl::Status Set(const std::string& controller, const std::string& worker, const Settings& settings,
                   WorkerCgroup& group);
  void LimitMemory(const std::string& worker, int64_t bytes_max, WorkerCgroup& group);
  void LimitCpus(const std::string& worker, const CgroupLimits& limits, WorkerCgroup& group);

  std::string tree_folder_;
  std::map<std::string, Controller> controllers_;  // By name: those that can be used.
  std::shared_ptr<std::vector<std::string>> busy_ = std::make_shared<std::vector<std::string>>();
  uint64_t next_ = 1;
};

}  // namespace troupe::keeper
