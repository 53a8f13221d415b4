// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/actor_directory.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {
namespace {

std::string StateText(v1::ActorState state) {
  switch (state) {
    case v1::ACTOR_PENDING:
      return "waits to be started";
    case v1::ACTOR_STARTING:
      return "is starting";
    case v1::ACTOR_READY:
      return "is ready";
    case v1::ACTOR_STOPPING:
      return "is stopping";
    case v1::ACTOR_DEAD:
      return "has ended";
    default:
      return "is in an unknown state";
  }
}

std::string EntryText(const DirectoryEntry& entry) {
  return entry.life().ToString() + " " + StateText(entry.state) + (entry.reason.empty() ? "" : ": " + entry.reason);
}

// A life that was ready does not wait to be started again: its successor does.
bool HasEnded(const DirectoryEntry& old_entry, const DirectoryEntry& new_entry) {
  if (new_entry.life().incarnation > old_entry.life().incarnation) return true;
  bool was_up = old_entry.state == v1::ACTOR_READY || old_entry.state == v1::ACTOR_STOPPING;
  return was_up && new_entry.ended();
}

}  // namespace

ActorDirectory::ActorDirectory(JobId job, std::string node_id, std::shared_ptr<CallRouter> router,
                               DeathListener on_death)
    : job_(std::move(job)), node_id_(std::move(node_id)), router_(std::move(router)), on_death_(std::move(on_death)) {}

std::optional<DirectoryEntry> ActorDirectory::Find(const std::string& role, int32_t replica) const {
  MutexLock lock(mutex_);
  auto found = entries_.find({role, replica});
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

std::vector<DirectoryEntry> ActorDirectory::FindRole(const std::string& role) const {
  MutexLock lock(mutex_);
  std::vector<DirectoryEntry> entries;
  for (auto it = entries_.lower_bound({role, 0}); it != entries_.end() && it->first.first == role; ++it) {
    entries.push_back(it->second);
  }
  return entries;
}

std::vector<DirectoryEntry> ActorDirectory::All() const {
  MutexLock lock(mutex_);
  std::vector<DirectoryEntry> entries;
  for (const auto& [key, entry] : entries_) entries.push_back(entry);
  return entries;
}

absl::StatusOr<DirectoryEntry> ActorDirectory::FindReady(const std::string& role, int32_t replica) const {
  std::optional<DirectoryEntry> entry = Find(role, replica);
  if (!entry.has_value()) {
    return absl::UnavailableError("the head has told of no " + role + "/" + std::to_string(replica) + " yet");
  }
  if (!entry->ready()) return absl::UnavailableError(EntryText(*entry));
  return *std::move(entry);
}

absl::StatusOr<DirectoryEntry> ActorDirectory::WaitFor(const std::string& role, int32_t replica, Monotonic deadline,
                                                       uint64_t incarnation_min) {
  const Waiter waiter = {{role, replica}, incarnation_min, std::make_shared<internal::FutureState<absl::Status>>()};
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    if (!IsReady(waiter)) waiters_.emplace(number = ++waiters_made_, waiter);
  }
  if (number != 0) {
    static_cast<void>(internal::WaitFor(*waiter.ready, {}, deadline));
    MutexLock lock(mutex_);
    waiters_.erase(number);
  }
  absl::StatusOr<DirectoryEntry> entry = FindReady(role, replica);
  if (entry.ok() && entry->life().incarnation >= incarnation_min) return entry;
  return absl::DeadlineExceededError(entry.ok() ? EntryText(*entry) + ", and a later life was waited for"
                                                : MessageOf(entry.status()));
}

bool ActorDirectory::IsReady(const Waiter& waiter) const {
  auto found = entries_.find(waiter.replica);
  return found != entries_.end() && found->second.ready() && found->second.life().incarnation >= waiter.incarnation_min;
}

bool ActorDirectory::stop_requested() const {
  MutexLock lock(mutex_);
  return stop_requested_;
}

int ActorDirectory::AddListener(Listener listener) {
  MutexLock notify(notify_mutex_);
  for (const DirectoryEntry& entry : All()) listener(entry);
  listeners_[next_listener_] = std::move(listener);
  return next_listener_++;
}

void ActorDirectory::RemoveListener(int id) {
  MutexLock notify(notify_mutex_);
  listeners_.erase(id);
}

bool ActorDirectory::ApplyOne(const v1::Actor& actor, DirectoryEntry& entry, std::vector<DirectoryEntry>& dead) {
  entry.address.life = ActorLife::FromProto(actor.address().actor());
  if (entry.life().path.job != job_) return false;
  entry.node_id = actor.address().node_id();
  entry.state = actor.state();
  entry.restarts = actor.restarts();
  entry.last_exit = actor.last_exit();
  entry.reason = actor.reason();
  bool same_node = entry.node_id == node_id_ || actor.address().remote_endpoint().empty();
  if (entry.ready()) {
    entry.address.endpoint = same_node ? actor.address().endpoint() : actor.address().remote_endpoint();
  }
  auto [known, is_new] = entries_.try_emplace({entry.life().path.role, entry.life().path.replica}, entry);
  if (is_new) {
    if (entry.state == v1::ACTOR_DEAD) dead.push_back(entry);
    return true;
  }
  if (entry.life().incarnation < known->second.life().incarnation) return false;
  if (HasEnded(known->second, entry)) {
    dead.push_back(known->second);
    dead.back().last_exit = entry.last_exit;
  }
  known->second = entry;
  return true;
}

void ActorDirectory::Apply(const v1::ActorUpdate& update) {
  MutexLock notify(notify_mutex_);
  std::vector<DirectoryEntry> changed, dead;
  std::vector<Waiter> ready;
  {
    MutexLock lock(mutex_);
    stop_requested_ = stop_requested_ || update.stop_requested();
    for (const v1::Actor& actor : update.actors()) {
      DirectoryEntry entry;
      if (ApplyOne(actor, entry, dead)) changed.push_back(std::move(entry));
    }
    for (const auto& [number, waiter] : waiters_) {
      if (IsReady(waiter)) ready.push_back(waiter);
    }
  }
  for (const Waiter& waiter : ready) waiter.ready->Set(absl::OkStatus());
  for (const DirectoryEntry& entry : dead) {
    if (on_death_) on_death_(entry.life(), entry.last_exit);
  }
  for (const DirectoryEntry& entry : changed) {
    for (const auto& [id, listener] : listeners_) listener(entry);
  }
}

}  // namespace troupe
