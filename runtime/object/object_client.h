// SPDX-License-Identifier: Apache-2.0
// ObjectClient: a process' line to the broker of memory files of its node. Dials at the first use and again after the
// agent was restarted (a new agent has none of the old objects: what this client put and holds, it puts again). Safe
// from any thread; one request at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/env/unix_socket.h"
#include "runtime/object/memory_file.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

class ObjectClient {
 public:
  // `owner`: this process' actor, whose end frees what was put.
  ObjectClient(std::string socket_path, ActorLife owner);

  // Errors as of object.proto; UNAVAILABLE: no broker answers.
  absl::Status Put(const std::string& id, std::shared_ptr<const MemoryFile> file, bool keep = false);
  absl::StatusOr<std::shared_ptr<const MemoryFile>> Get(const std::string& id);
  absl::Status Drop(const std::string& id);

 private:
  struct Held {
    std::shared_ptr<const MemoryFile> file;
    bool keep = false;
  };

  // A request and its reply; dials when needed, and once more when the line turns out to be dead.
  absl::StatusOr<UnixPacket> Ask(const v1::ObjectRequest& request, const std::vector<int>& fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Dial() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<UnixPacket> Exchange(const v1::ObjectRequest& request, const std::vector<int>& fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::ObjectRequest PutRequest(const std::string& id, bool keep) const;

  const std::string socket_path_;
  const ActorLife owner_;
  Mutex mutex_;
  UnixSocket socket_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
