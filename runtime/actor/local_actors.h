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
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/actor/actor_cell.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/actor_host.h"
#include "runtime/actor/restart_history.h"
#include "runtime/actor/spawn.h"
#include "runtime/base/mutex.h"

namespace troupe {

class LocalActors : public ActorSpawner {
 public:
  // A process holds at most that many; each costs about a kilobyte.
  static constexpr size_t kActorsMax = 1'000'000;

  // `setting`: what the contexts of the actors say, but for `self`. Its job is theirs. Where it names a role (of a
  // worker process), their names begin with "role.replica.", and their incarnations grow over those of that role too.
  // The others outlive this. `ended` is told of each life that has ended, before its successor begins.
  // `spawner`: of the children of these actors; null: this.
  LocalActors(ActorSetting setting, ActorHost& host, std::shared_ptr<CallRouter> router, Executor& executor,
              std::function<void(const ActorLife&, const v1::ExitCause&)> ended, ActorDirectory* directory = nullptr,
              ActorSpawner* spawner = nullptr);
  // After Shutdown, when the executor runs nothing any more.
  ~LocalActors() override;

  absl::StatusOr<ActorAddress> Spawn(const std::string& actor_class, std::string arguments, SpawnOptions options,
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
  struct Entry {
    explicit Entry(SpawnOptions given) : options(std::move(given)), restarts(options.restart) {}

    SpawnOptions options;
    const ActorClass* actor_class = nullptr;
    std::string arguments;
    std::optional<ActorLife> parent;
    // Below under mutex_.
    RestartHistory restarts;
    ActorLife life;
    std::shared_ptr<ActorCell> cell;  // Null while no life runs.
    std::set<std::string> children;   // By name; none of them detached.
    int restarted = 0;
    std::optional<std::string> stop_asked;  // Why there is no next life, and the one that begins is stopped.
    std::optional<v1::ExitCause> failed;    // The life has ended so, and its children are waited for.
    uint64_t backoff_timer = 0;
    bool starting = true;                       // Its first OnStart has not ended.
    internal::FutureState<absl::Status> ended;  // For good.
  };
  using EntryPtr = std::shared_ptr<Entry>;

  // Makes it a child of its parent. UNAVAILABLE: that has ended.
  absl::Status Adopt(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first life, until its OnStart has ended.
  absl::Status AwaitStart(const EntryPtr& entry);
  absl::Status CheckFree(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Constructs and begins a life.
  absl::StatusOr<Future<void>> BeginLife(const EntryPtr& entry);
  void LifeEnded(const EntryPtr& entry, const ActorLife& life, const v1::ExitCause& cause);
  // When no child is left: the next life, or the end.
  void Settle(const EntryPtr& entry);
  void Restart(const EntryPtr& entry);
  void EndForGood(const EntryPtr& entry);
  void AskToStop(const EntryPtr& entry, const std::string& reason);
  EntryPtr EntryOf(const ActorLife& life) const;
  static ActorInfo InfoOf(const Entry& entry, const ActorSetting& setting);
  static bool WaitEnded(const std::vector<EntryPtr>& entries, Monotonic deadline);

  const ActorSetting setting_;
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
  std::map<std::string, EntryPtr> entries_ ABSL_GUARDED_BY(mutex_);  // By name; until they have ended for good.
  std::set<std::string> reserved_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
