// SPDX-License-Identifier: Apache-2.0
// ActorHost: the actors that live in this process, by path. Checks the incarnation of every call before it reaches one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_set.h"
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

  // The cell of that life, if it lives here; else null.
  std::shared_ptr<ActorCell> CellOf(const ActorLife& life) const;
  // Counts what was added: as long as it stays, nothing lives here that did not before.
  uint64_t added() const { return added_.load(std::memory_order_acquire); }

  // With the door, if that life lives here under that very address.
  ActorPlace Locate(ActorAddress address) const;
  // That life is known to have ended: what waits for it is answered, and no more comes in.
  void Shut(const ActorLife& life);

  // Any thread. Delivers, or answers: CALL_STALE_EPOCH with the living incarnation when the target is older than it,
  // CALL_UNAVAILABLE when this process has no such actor (or only an older one).
  void Deliver(const ActorLife& target, IncomingCall call);
  // The same, the answer returned and not given.
  absl::Status TryDeliver(const ActorLife& target, IncomingCall call);
  void CancelCall(const ActorLife& target, const CallKey& key);

 private:
  std::shared_ptr<ActorCell> Find(const ActorPath& path) const;
  std::shared_ptr<internal::LocalDoor> DoorOf(const ActorLife& life) const;
  // OK: it is the cell of that life.
  static absl::Status CheckLife(const ActorLife& target, const std::shared_ptr<ActorCell>& cell);

  using CellPtr = std::shared_ptr<ActorCell>;
  static const ActorPath& PathOf(const ActorPath& path) { return path; }
  static const ActorPath& PathOf(const CellPtr& cell) { return cell->life().path; }
  struct Hash {
    using is_transparent = void;
    template <typename T>
    size_t operator()(const T& of) const {
      return absl::HashOf(PathOf(of).role, PathOf(of).replica);
    }
  };
  struct Same {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return PathOf(a) == PathOf(b);
    }
  };

  std::atomic<uint64_t> added_{0};
  mutable Mutex mutex_;
  absl::flat_hash_set<CellPtr, Hash, Same> cells_ ABSL_GUARDED_BY(mutex_);  // By path.
};

}  // namespace troupe
