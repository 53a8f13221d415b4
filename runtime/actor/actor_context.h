// SPDX-License-Identifier: Apache-2.0
// ActorContext: what an actor is told about itself and its surroundings when it starts, and what it may ask of the
// runtime: timers, monitors, links, children. Lives as long as the actor; safe to use from any thread. Callbacks run in
// the actor's turns.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/call_router.h"
#include "runtime/actor/local_door.h"
#include "runtime/actor/object_ref.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/spawn.h"
#include "runtime/actor/spawn_actor.h"
#include "runtime/actor/strand.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "troupe/v1/head.pb.h"

namespace grpc {
class Channel;
}

namespace troupe {

class ActorDirectory;

namespace internal {
// The message by which one half of a link asks for the other.
inline constexpr char kLinkMethod[] = "troupe.Link";
}  // namespace internal

// What the node agent said at the start (WorkerAssignment), and what the process made of it; shared by all actors of a
// process.
struct ActorSetting {
  ActorLife self;  // The actor that owns the process; of one without, the job alone. Others: ActorContext::self.
  std::string node_id;
  v1::RoleSpec role;
  int restarts = 0;  // Of `self`; others: ActorContext::restarts.
  // Of the all_for_one group of `self`: grows each time when the group starts anew, and members refuse those of an
  // older one. 0: it is of no such group.
  uint64_t group_generation = 0;
  std::string output_dir;       // Absolute; the run's folder.
  std::string config_json;      // The whole job file, every default filled in.
  std::string head_endpoint;    // gRPC target of the head; "" when there is none (tests).
  std::string endpoint;         // gRPC target of this process for others of its node.
  std::string remote_endpoint;  // The same for other nodes.
  std::string object_socket;    // The node's broker of memory files; "" when there is none.
  RpcSecurity security;         // For channels that the actor makes.
};

class ActorContext {
 public:
  // Of the actor that owns the process. `directory` and `router` may be null in tests; they outlive the context.
  ActorContext(ActorSetting setting, std::shared_ptr<CallRouter> router, ActorDirectory* directory);
  // Of another one.
  ActorContext(ActorAddress address, int restarts, std::shared_ptr<const ActorSetting> setting,
               std::shared_ptr<CallRouter> router, ActorDirectory* directory);
  ~ActorContext();

  const ActorSetting& setting() const { return *setting_; }
  const ActorLife& self() const { return door_->life; }
  const ActorAddress& address() const { return *door_; }
  // For the cell.
  const std::shared_ptr<internal::LocalDoor>& door() const { return door_; }
  int restarts() const { return restarts_; }  // Of this actor so far.

  // The job's actors: where they live now, who died (runtime/worker/actor_directory.h). Only in a worker process.
  ActorDirectory& directory() const { return *directory_; }

  template <typename T>
  Ref<T> MakeRef(ActorAddress address) const {
    return Ref<T>(std::move(address), router_);
  }

  const std::shared_ptr<CallRouter>& router() const { return router_; }

  // How this actor's process reaches others, and others it; and why not by rings, where it does not.
  std::vector<Connection> connections() const {
    return router_ == nullptr ? std::vector<Connection>() : router_->Connections();
  }

  // Timers. `Every`: the first run is after `period`; a run that is late does not pile up others. They end with the
  // actor, or by CancelTimer, after which `run` does not begin any more (asked in the actor's turn).
  using TimerId = uint64_t;
  TimerId After(absl::Duration delay, std::function<void()> run);
  TimerId Every(absl::Duration period, std::function<void()> run);
  void CancelTimer(TimerId id);
  // The clock of timers and deadlines (a simulation's runs as the test wants).
  Monotonic Now() const;

  // Monitors: `ended` runs once when that life has ended; now, if it has. One way; ends by Demonitor. Whose end is
  // known where: docs/actors.md.
  using MonitorId = uint64_t;
  using EndedCallback = std::function<void(const ActorLife&, const v1::ExitCause&)>;
  template <typename T>
  MonitorId Monitor(const Ref<T>& actor, EndedCallback ended) {
    return Monitor(actor.address(), std::move(ended));
  }
  MonitorId Monitor(const ActorAddress& actor, EndedCallback ended);
  void Demonitor(MonitorId id);

  // Links: when one of the two ends other than by being stopped, the other is stopped too, with a reason that names it.
  template <typename T>
  void Link(const Ref<T>& actor) {
    Link(actor.address());
  }
  void Link(const ActorAddress& actor);
  // The half of Link that this actor owes.
  void EndWith(const ActorAddress& actor);

  // Objects (object_ref.h): Put copies into one; Get gives bytes and tensors without a copy, also of other processes.
  template <typename T>
  auto Put(const T& value) const {
    return objects().Put(value);
  }
  template <typename T>
  absl::StatusOr<T> Get(const ObjectRef<T>& ref, absl::Duration timeout = kGetTimeoutDefault) const {
    return objects().Get(ref, timeout);
  }
  Objects objects() const { return Objects(router_ == nullptr ? nullptr : router_->objects()); }

  // A child: it ends with this actor, unless detached. Errors as of ActorSpawner; FAILED_PRECONDITION: this process has
  // no spawner.
  template <typename T, typename... Args>
  absl::StatusOr<Ref<T>> Spawn(const SpawnOptions& options, Args&&... args) {
    if (spawner_ == nullptr) return absl::FailedPreconditionError("this process spawns no actors");
    return internal::SpawnActor<T>(*spawner_, router_, options, &self(), std::forward<Args>(args)...);
  }
  void SetSpawner(ActorSpawner* spawner) { spawner_ = spawner; }
  // The actor's own wish to end: it takes no more messages, and OnStop follows.
  void StopSelf(const std::string& reason);

  // A channel with the token to the head (in a worker process), or to another process; kept and shared for the
  // context's life.
  std::shared_ptr<grpc::Channel> HeadChannel() { return ChannelTo(setting_->head_endpoint); }
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& endpoint);

  // True once the process was asked to stop: a long handler should come to its end.
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  void SetStopping() { stopping_.store(true, std::memory_order_relaxed); }

  // For the cell, in its turn: before OnStart, after OnStop.
  void Attach(internal::Strand* strand);
  void Detach();

 private:
  struct Timer {
    uint64_t id = 0;  // Of the executor.
    Monotonic due;
    absl::Duration period;  // Zero: once.
    std::function<void()> run;
  };
  // What most actors never have.
  struct Extras {
    TimerId timers_made = 0;
    std::map<TimerId, Timer> timers;
    MonitorId monitors_made = 0;
    std::map<MonitorId, uint64_t> monitors;  // The router's watches.
    std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  };
  Extras& extras() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TimerId AddTimer(Timer timer);
  void Arm(TimerId id, Timer& timer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunTimer(TimerId id);

  const std::shared_ptr<const ActorSetting> setting_;
  const std::shared_ptr<internal::LocalDoor> door_;
  const int restarts_;
  const std::shared_ptr<CallRouter> router_;
  ActorDirectory* const directory_;
  std::atomic<bool> stopping_{false};
  ActorSpawner* spawner_ = nullptr;  // Set before the actor starts.
  mutable Mutex mutex_;
  std::shared_ptr<internal::Strand> strand_ ABSL_GUARDED_BY(mutex_);  // From OnStart to OnStop.
  std::unique_ptr<Extras> extras_ ABSL_GUARDED_BY(mutex_);            // Null until the first of them.
};

}  // namespace troupe
