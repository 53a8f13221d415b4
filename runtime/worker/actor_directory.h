// SPDX-License-Identifier: Apache-2.0
// ActorDirectory: the actors of one job as the head last told: where each replica lives, in which state, and how its
// last life ended. While the head is away the last known stays. Fed by DirectoryFollower (or a test). Safe from any
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/actor/future.h"
#include "runtime/actor/ref.h"
#include "runtime/base/ids.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/head.pb.h"

namespace troupe {

struct DirectoryEntry {
  ActorAddress address;  // Of the newest life; the endpoint is empty before it is ready.
  std::string node_id;
  v1::ActorState state = v1::ACTOR_PENDING;
  int restarts = 0;
  v1::ExitCause last_exit;  // Of the life before, or of this one when it is dead.
  std::string reason;

  bool ready() const { return state == v1::ACTOR_READY; }
  // Whether this life is over: a replica that waits to be started again keeps its last life's number.
  bool ended() const { return state == v1::ACTOR_PENDING || state == v1::ACTOR_DEAD; }
  const ActorLife& life() const { return address.life; }
};

class ActorDirectory {
 public:
  // Runs on the thread that brings the news, one at a time; short; may call the directory, but not add or remove
  // listeners.
  using Listener = std::function<void(const DirectoryEntry&)>;
  // Told of each life that is known to have ended, so that calls to it fail at once.
  using DeathListener = std::function<void(const ActorLife&, const v1::ExitCause&)>;

  // `node_id`: of this process. `router`: what refs call through. `on_death` may be empty.
  ActorDirectory(JobId job, std::string node_id, std::shared_ptr<CallRouter> router, DeathListener on_death);

  std::optional<DirectoryEntry> Find(const std::string& role, int32_t replica) const;
  // Every replica of the role, by number.
  std::vector<DirectoryEntry> FindRole(const std::string& role) const;
  std::vector<DirectoryEntry> All() const;

  // A ref to the newest life. UNAVAILABLE when it is not ready now (the message says in which state it is).
  template <typename T>
  absl::StatusOr<Ref<T>> Resolve(const std::string& role, int32_t replica) const {
    absl::StatusOr<DirectoryEntry> entry = FindReady(role, replica);
    if (!entry.ok()) return entry.status();
    return Ref<T>(entry->address, router_);
  }

  // Waits until the replica is ready in a life of at least `incarnation_min`: on an actor's thread as for a future, so
  // that other actors run meanwhile. DEADLINE_EXCEEDED says what it was last.
  template <typename T>
  absl::StatusOr<Ref<T>> WaitReady(const std::string& role, int32_t replica, Monotonic deadline,
                                   uint64_t incarnation_min = 0) {
    absl::StatusOr<DirectoryEntry> entry = WaitFor(role, replica, deadline, incarnation_min);
    if (!entry.ok()) return entry.status();
    return Ref<T>(entry->address, router_);
  }
  absl::StatusOr<DirectoryEntry> WaitFor(const std::string& role, int32_t replica, Monotonic deadline,
                                         uint64_t incarnation_min = 0);

  // Whether the user asked the job to stop at the next safe point (Head.StopJob).
  bool stop_requested() const;

  // The listener is told of every entry that is known now, then of each change. It is never called after
  // RemoveListener.
  int AddListener(Listener listener);
  void RemoveListener(int id);

  // Takes news of the head. Older incarnations than the known are ignored.
  void Apply(const v1::ActorUpdate& update);

 private:
  // Of one WaitFor.
  struct Waiter {
    std::pair<std::string, int32_t> replica;
    uint64_t incarnation_min = 0;
    std::shared_ptr<internal::FutureState<absl::Status>> ready;
  };
  bool IsReady(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<DirectoryEntry> FindReady(const std::string& role, int32_t replica) const;
  bool ApplyOne(const v1::Actor& actor, DirectoryEntry& entry, std::vector<DirectoryEntry>& dead)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobId job_;
  const std::string node_id_;
  const std::shared_ptr<CallRouter> router_;
  const DeathListener on_death_;
  Mutex notify_mutex_;  // Held while listeners run; taken before mutex_.
  mutable Mutex mutex_;
  std::map<std::pair<std::string, int32_t>, DirectoryEntry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiters_made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  int next_listener_ ABSL_GUARDED_BY(notify_mutex_) = 1;
  std::map<int, Listener> listeners_ ABSL_GUARDED_BY(notify_mutex_);
};

}  // namespace troupe
