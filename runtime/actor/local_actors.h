// SPDX-License-Identifier: Apache-2.0
// LocalActors: the actors that were spawned within this process: their names, their trees of parents and children, and
// their next lives after a failure. Thread-safe.
//
// An actor ends when it is stopped, or fails (ends itself otherwise, is linked to one that failed, throws where its
// policy says so). Its children end with it, before its next life begins and before its own end is final. A name always
// resolves to the newest life; incarnations grow over all actors of a LocalActors, so a ref never reaches a successor,
// also when a name is given again.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/actor/actor_cell.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/actor_host.h"
#include "runtime/actor/local_entry.h"
#include "runtime/actor/spawn.h"
#include "runtime/base/mutex.h"

namespace troupe {

class LocalActors : public ActorSpawner {
 public:
  // A process holds at most that many; each costs about a kilobyte.
  static constexpr size_t kActorsMax = 1'000'000;

  // `setting`: what the contexts of the actors say. Its job is theirs. Where it names a role (of a worker process),
  // their names begin with "role.replica.", and their incarnations grow over those of that role too.
  // The others outlive this. `ended` is told of each life that has ended, before its successor begins.
  // `spawner`: of the children of these actors; null: this.
  LocalActors(ActorSetting setting, ActorHost& host, std::shared_ptr<CallRouter> router, Executor& executor,
              std::function<void(const ActorLife&, const v1::ExitCause&)> ended, ActorDirectory* directory = nullptr,
              ActorSpawner* spawner = nullptr);
  // After Shutdown, when the executor runs nothing any more.
  ~LocalActors() override;

  absl::StatusOr<ActorPlace> Spawn(const std::string& actor_class, std::string arguments, const SpawnOptions& options,
                                   const ActorLife* parent) override;
  absl::StatusOr<ActorInfo> Find(const std::string& name) const override;
  std::vector<ActorInfo> List() const override;
  absl::Status Stop(const ActorLife& life, const std::string& reason, absl::Duration grace) override;
  // As if its process were killed: no OnStop, and its policy decides about a next life. For tests of failures.
  void Crash(const ActorLife& life);

  // Takes a name for an actor that lives elsewhere, so that no two of this runtime have the same. INVALID_ARGUMENT,
  // ALREADY_EXISTS, UNAVAILABLE: as of Spawn.
  absl::Status Reserve(const std::string& name);
  void Release(const std::string& name);

  // Stops every actor and refuses new ones; false: some had not ended by the deadline.
  bool Shutdown(const std::string& reason, Monotonic deadline);

 private:
  using Entry = LocalEntry;
  using EntryPtr = std::shared_ptr<Entry>;

  // Gives it its name, which is the options' or a new one, and puts it among the others and below its parent. Errors as
  // of Spawn.
  absl::Status Enter(const EntryPtr& entry, const ActorLife* parent);
  absl::Status CheckFree(std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: none has that name.
  EntryPtr Named(std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Begun {
    std::shared_ptr<internal::LocalDoor> door;
    Future<void> started;  // Not valid: it has started already.
  };
  // The first life, until its OnStart has ended; its door.
  absl::StatusOr<std::shared_ptr<internal::LocalDoor>> AwaitStart(const EntryPtr& entry);
  // Constructs and begins a life. One that was asked to stop meanwhile has nothing but an OnStop.
  absl::StatusOr<Begun> BeginLife(const EntryPtr& entry);
  void LifeEnded(const EntryPtr& entry, const v1::ExitCause& cause);
  // When no child is left: the next life, or the end.
  void Settle(const EntryPtr& entry);
  void Restart(const EntryPtr& entry);
  void EndForGood(const EntryPtr& entry);
  void AskToStop(const EntryPtr& entry, const std::string& reason);
  EntryPtr EntryOf(const ActorLife& life) const;
  static bool WaitEnded(const std::vector<EntryPtr>& entries, Monotonic deadline);

  const std::shared_ptr<const ActorSetting> setting_;
  const std::string prefix_;
  ActorHost& host_;
  const std::shared_ptr<CallRouter> router_;
  Executor& executor_;
  const std::function<void(const ActorLife&, const v1::ExitCause&)> ended_;
  ActorDirectory* const directory_;
  ActorSpawner* const spawner_;

  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t incarnations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unnamed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_set<EntryPtr, LocalEntryName, LocalEntryName> entries_
      ABSL_GUARDED_BY(mutex_);  // Until they have ended for good.
  std::set<std::string> reserved_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
