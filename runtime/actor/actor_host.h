// SPDX-License-Identifier: Apache-2.0
// ActorHost: the actors that live in this process, by path. Checks the incarnation of every call before it reaches one.
#pragma once

#include <map>
#include <memory>

#include "runtime/actor/actor_cell.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"

namespace troupe {

class ActorHost {
 public:
  // The cell stays shared with the caller. A cell of an older life of the same path is replaced (it was stopped
  // before).
  void Add(std::shared_ptr<ActorCell> cell);
  // Forgets that life; a newer one stays.
  void Remove(const ActorLife& life);
  // The incarnation of that replica that lives here; 0: none.
  uint64_t Living(const ActorPath& path) const;

  // Any thread. Delivers, or answers: CALL_STALE_EPOCH with the living incarnation when the target is older than it,
  // CALL_UNAVAILABLE when this process has no such actor (or only an older one).
  void Deliver(const ActorLife& target, IncomingCall call);
  // The same, the answer returned and not given.
  absl::Status TryDeliver(const ActorLife& target, IncomingCall call);
  void CancelCall(const ActorLife& target, const CallKey& key);

 private:
  std::shared_ptr<ActorCell> Find(const ActorPath& path) const;
  // OK: it is the cell of that life.
  static absl::Status CheckLife(const ActorLife& target, const std::shared_ptr<ActorCell>& cell);

  mutable Mutex mutex_;
  std::map<ActorPath, std::shared_ptr<ActorCell>> cells_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
