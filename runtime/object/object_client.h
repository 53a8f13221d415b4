// SPDX-License-Identifier: Apache-2.0
// ObjectClient: a process' line to the broker of memory files of its node. Dials at the first use and again after the
// agent was restarted (a new agent has none of the old objects: what this client put and holds, it puts again). Safe
// from any thread; one request at a time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/object/memory_file.h"
#include "runtime/object/object_line.h"
#include "troupe/v1/object.pb.h"

namespace troupe {

class ObjectClient {
 public:
  // `owner`: this process' actor, whose end frees what was put.
  ObjectClient(std::string socket_path, ActorLife owner, ObjectLineTimeouts timeouts = {});

  // Errors as of object.proto; UNAVAILABLE: no broker answers. What could not be put or dropped then is dropped when
  // it answers again.
  absl::Status Put(const std::string& id, std::shared_ptr<const MemoryFile> file, bool keep = false);
  absl::StatusOr<std::shared_ptr<const MemoryFile>> Get(const std::string& id);
  absl::Status Drop(const std::string& id);

 private:
  struct Held {
    std::shared_ptr<const MemoryFile> file;
    bool keep = false;
  };

  v1::ObjectRequest PutRequest(const std::string& id, bool keep) const;
  // What this process put and holds, to a broker that does not know of it.
  absl::Status PutAgain(ObjectLine& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ActorLife owner_;
  Mutex mutex_;
  ObjectLine line_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> to_drop_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
