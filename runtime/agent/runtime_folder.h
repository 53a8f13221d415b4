// SPDX-License-Identifier: Apache-2.0
// RuntimeFolder: the folder of one node agent on its machine, mode 0700:
//   agent.lock    held by the agent that lives        identity   see agent_store.proto
//   agent.sock    the agent's gRPC socket             workers/   one file per worker that was assigned
//   keeper.lock, keeper.sock, keeper.log              logs/      of workers without an output folder
//   objects.sock  the broker of memory files          w-*.sock, w-*.ring  a worker's own
//   spill/        objects that memory has no room for
//   sim_devices   how simulated devices are (runtime/device/sim_source.h); written by who tries something
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/env/file_lock.h"
#include "troupe/v1/agent_store.pb.h"

namespace troupe::agent {

// ${XDG_RUNTIME_DIR:-/tmp}/troupe-<uid>/<name>.
std::string DefaultRuntimeDir(const std::string& name);

// Not thread-safe.
class RuntimeFolder {
 public:
  // Makes the folder and locks it. ALREADY_EXISTS: an agent lives in it. INVALID_ARGUMENT: the path is not absolute, or
  // too long for the sockets in it. PERMISSION_DENIED: it is another user's, or others may write to it.
  static absl::StatusOr<std::unique_ptr<RuntimeFolder>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string agent_socket() const { return path_ + "/agent.sock"; }
  std::string object_socket() const { return path_ + "/objects.sock"; }
  std::string keeper_log() const { return path_ + "/keeper.log"; }

  // An empty identity when none was kept. DATA_LOSS: the file is broken.
  absl::StatusOr<v1::AgentIdentity> LoadIdentity() const;
  absl::Status KeepIdentity(const v1::AgentIdentity& identity);
  // Broken files are skipped: their workers are ended as unknown ones.
  absl::StatusOr<std::vector<v1::AssignedWorker>> LoadAssignments() const;
  absl::Status KeepAssignment(const v1::AssignedWorker& assigned);
  void ForgetAssignment(const ActorLife& actor);

  // Workers' sockets without a living owner.
  void RemoveDeadSockets();
  // After the last worker has ended: removes the folder and everything in it.
  void Remove();

 private:
  RuntimeFolder(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string AssignmentPath(const ActorLife& actor) const;

  std::string path_;
  FileLock lock_;
};

}  // namespace troupe::agent
