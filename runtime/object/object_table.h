// SPDX-License-Identifier: Apache-2.0
// ObjectTable: which memory files a node holds for whom. The deciding part of the broker: no sockets, no threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/env/unique_fd.h"
#include "runtime/object/object_budget.h"

namespace troupe {

class ObjectTable {
 public:
  struct Entry {
    UniqueFd fd;
    int64_t bytes = 0;
    ActorLife owner;
    bool keep = false;
  };

  static constexpr size_t kIdBytesMax = 256;
  static constexpr size_t kObjectsMax = 4096;  // Each holds a descriptor.

  // The budget outlives the table.
  explicit ObjectTable(ObjectBudget& budget) : budget_(budget) {}

  // An owner may put its object again: the new one takes the old one's place. Errors as of PutObject (object.proto).
  absl::Status Put(const std::string& id, Entry entry);
  // NOT_FOUND. Valid until the next change.
  absl::StatusOr<const Entry*> Get(const std::string& id) const;
  void Drop(const std::string& id);
  // That life and those before it have ended: their objects go, unless they are kept; later puts are refused.
  void OwnerEnded(const ActorLife& life);

  size_t size() const { return entries_.size(); }

 private:
  ObjectBudget& budget_;
  std::map<std::string, Entry> entries_;
  std::map<ActorPath, uint64_t> ended_;  // The newest ended life of each replica.
};

}  // namespace troupe
