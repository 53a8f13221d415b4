// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_host.h"

#include "runtime/actor/call_error.h"

namespace troupe {

void ActorHost::Add(std::shared_ptr<ActorCell> cell) {
  MutexLock lock(mutex_);
  ActorPath path = cell->life().path;
  cells_[std::move(path)] = std::move(cell);
}

void ActorHost::Remove(const ActorLife& life) {
  std::shared_ptr<ActorCell> removed;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  auto found = cells_.find(life.path);
  if (found == cells_.end() || found->second->life() != life) return;
  removed = std::move(found->second);
  cells_.erase(found);
}

bool ActorHost::Has(const ActorLife& life) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(life.path);
  return found != cells_.end() && found->second->life() == life;
}

void ActorHost::Deliver(const ActorLife& target, IncomingCall call) {
  std::shared_ptr<ActorCell> cell;
  {
    MutexLock lock(mutex_);
    auto found = cells_.find(target.path);
    if (found != cells_.end()) cell = found->second;
  }
  uint64_t living = cell == nullptr ? 0 : cell->life().incarnation;
  if (target.incarnation < living) {
    call.reply(StaleEpochStatus(target.ToString() + " has ended; incarnation " + std::to_string(living) + " lives now",
                                living));
  } else if (target.incarnation > living) {
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, target.ToString() + " does not live in this process"));
  } else {
    cell->Deliver(std::move(call));
  }
}

}  // namespace troupe
