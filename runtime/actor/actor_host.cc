// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_host.h"

#include <utility>

#include "runtime/actor/call_error.h"

namespace troupe {

void ActorHost::Add(std::shared_ptr<ActorCell> cell) {
  std::shared_ptr<ActorCell> replaced;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  auto [at, added] = cells_.insert(cell);
  added_.fetch_add(1, std::memory_order_acq_rel);
  if (added) return;
  replaced = *at;
  cells_.erase(at);
  cells_.insert(std::move(cell));
}

void ActorHost::Remove(const ActorLife& life) {
  std::shared_ptr<ActorCell> removed;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  auto found = cells_.find(life.path);
  if (found == cells_.end() || (*found)->life() != life) return;
  removed = *found;
  cells_.erase(found);
}

uint64_t ActorHost::Living(const ActorPath& path) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(path);
  return found == cells_.end() ? 0 : (*found)->life().incarnation;
}

std::shared_ptr<ActorCell> ActorHost::Find(const ActorPath& path) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(path);
  return found == cells_.end() ? nullptr : *found;
}

std::shared_ptr<ActorCell> ActorHost::CellOf(const ActorLife& life) const {
  MutexLock lock(mutex_);
  auto found = cells_.find(life.path);
  return found == cells_.end() || (*found)->life() != life ? nullptr : *found;
}

std::shared_ptr<internal::LocalDoor> ActorHost::DoorOf(const ActorLife& life) const {
  std::shared_ptr<ActorCell> cell = CellOf(life);
  return cell == nullptr ? nullptr : cell->door();
}

ActorPlace ActorHost::Locate(ActorAddress address) const {
  std::shared_ptr<internal::LocalDoor> door = DoorOf(address.life);
  if (door == nullptr || *door != address) return {std::make_shared<const ActorAddress>(std::move(address)), nullptr};
  internal::LocalDoor* raw = door.get();
  return {std::move(door), raw};
}

void ActorHost::Shut(const ActorLife& life) {
  if (std::shared_ptr<internal::LocalDoor> door = DoorOf(life)) door->Shut();
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
