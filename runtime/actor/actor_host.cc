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

uint64_t ActorHost::Living(const ActorPath& path) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(path);
  return found == cells_.end() ? 0 : found->second->life().incarnation;
}

std::shared_ptr<ActorCell> ActorHost::Find(const ActorPath& path) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(path);
  return found == cells_.end() ? nullptr : found->second;
}

absl::Status ActorHost::CheckLife(const ActorLife& target, const std::shared_ptr<ActorCell>& cell) {
  uint64_t living = cell == nullptr ? 0 : cell->life().incarnation;
  if (target.incarnation < living) {
    return StaleEpochStatus(target.ToString() + " has ended; incarnation " + std::to_string(living) + " lives now",
                            living);
  }
  if (target.incarnation == living && cell != nullptr) return absl::OkStatus();
  return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, target.ToString() + " does not live in this process");
}

void ActorHost::Deliver(const ActorLife& target, IncomingCall call) {
  std::shared_ptr<ActorCell> cell = Find(target.path);
  if (absl::Status lives = CheckLife(target, cell); !lives.ok()) return call.Reply(lives);
  cell->Deliver(std::move(call));
}

absl::Status ActorHost::TryDeliver(const ActorLife& target, IncomingCall call) {
  std::shared_ptr<ActorCell> cell = Find(target.path);
  if (absl::Status lives = CheckLife(target, cell); !lives.ok()) return lives;
  return cell->TryDeliver(call);
}

void ActorHost::CancelCall(const ActorLife& target, const CallKey& key) {
  if (std::shared_ptr<ActorCell> cell = Find(target.path)) cell->CancelCall(key);
}

}  // namespace troupe
