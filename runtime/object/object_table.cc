// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_table.h"

#include <utility>

namespace troupe {

absl::Status ObjectTable::Put(const std::string& id, Entry entry) {
  if (id.empty() || id.size() > kIdBytesMax) return absl::InvalidArgumentError("an object id has 1 to 256 bytes");
  auto ended = ended_.find(entry.owner.path);
  if (ended != ended_.end() && entry.owner.incarnation <= ended->second) {
    return absl::AbortedError(entry.owner.ToString() + " has ended and cannot own objects");
  }
  auto found = entries_.find(id);
  int64_t replaced = 0;
  if (found != entries_.end()) {
    if (found->second.owner.path != entry.owner.path) {
      return absl::AlreadyExistsError("object " + id + " belongs to " + found->second.owner.ToString());
    }
    replaced = found->second.bytes;
  } else if (entries_.size() >= kObjectsMax) {
    return absl::ResourceExhaustedError("this node holds " + std::to_string(entries_.size()) + " objects already");
  }
  budget_.Give(replaced, entry.owner.path);
  if (absl::Status taken = budget_.Take(entry.bytes, entry.owner.path); !taken.ok()) {
    static_cast<void>(budget_.Take(replaced, entry.owner.path));  // It did fit.
    return taken;
  }
  entries_[id] = std::move(entry);
  return absl::OkStatus();
}

absl::StatusOr<const ObjectTable::Entry*> ObjectTable::Get(const std::string& id) const {
  auto found = entries_.find(id);
  if (found == entries_.end()) return absl::NotFoundError("this node has no object " + id);
  return &found->second;
}

void ObjectTable::Drop(const std::string& id) {
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  budget_.Give(found->second.bytes, found->second.owner.path);
  entries_.erase(found);
}

void ObjectTable::OwnerEnded(const ActorLife& life) {
  uint64_t& ended = ended_[life.path];
  ended = std::max(ended, life.incarnation);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const Entry& entry = it->second;
    if (entry.keep || entry.owner.path != life.path || entry.owner.incarnation > life.incarnation) {
      ++it;
      continue;
    }
    budget_.Give(entry.bytes, entry.owner.path);
    it = entries_.erase(it);
  }
}

}  // namespace troupe
