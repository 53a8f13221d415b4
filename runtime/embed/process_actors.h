// SPDX-License-Identifier: Apache-2.0
// ProcessActors: actors that this program spawns in processes of their own, placed by a head: each (or each group of
// them) is a job whose roles are the actors, run by this very program (which becomes a worker inside Runtime::Local or
// Connect). Thread-safe. Who waits for a head on an actor's thread lets other actors run meanwhile.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/executor.h"
#include "runtime/actor/future.h"
#include "runtime/actor/local_actors.h"
#include "runtime/actor/spawn.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "runtime/transport/transport.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe {

struct ProcessActorsOptions {
  std::string head_target;
  std::string node_id;  // That this program is on: its actors are reached by rings. "": not known.
  RpcSecurity security;
  std::string name;        // Of the runtime; jobs are called after it.
  std::string output_dir;  // Where the workers' logs go.
};

class ProcessActors {
 public:
  // `names`: in whose table the names stand. It and the transport outlive this; the executor lives as long as parents
  // may end.
  ProcessActors(ProcessActorsOptions options, LocalActors& names, Executor& executor,
                std::shared_ptr<Transport> transport);
  // Cancels what is left, but for the detached, and waits for its processes to end.
  ~ProcessActors();

  // Whether the head is there and takes the token. UNAVAILABLE, UNAUTHENTICATED or DEADLINE_EXCEEDED, within seconds.
  absl::Status CheckHead();

  // Returns when every one of the `size` actors is ready; placed all or none. One has the name that the options give,
  // several have ".0", ".1" and so on behind it. FAILED_PRECONDITION: they can never fit (the message says why), or one
  // ended while it started, with the cause. Otherwise as of ActorSpawner.
  absl::StatusOr<std::vector<ActorAddress>> Spawn(const std::string& actor_class, const std::string& arguments,
                                                  SpawnOptions options, const ActorLife* parent, size_t size,
                                                  bool group);
  absl::StatusOr<ActorInfo> Find(const std::string& name);
  std::vector<ActorInfo> List();
  bool Owns(const ActorLife& life) const;
  // Ends the group of that actor, all of it. A life before the newest: nothing happens.
  absl::Status Stop(const ActorLife& life, const std::string& reason, absl::Duration grace);
  // Forgets what has ended for good, so that its names are free.
  void Sweep();

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  absl::StatusOr<std::string> Submit(const Job& job, const std::string& actor_class, const std::string& arguments);
  absl::Status AwaitReady(Job& job, std::vector<ActorAddress>& addresses);
  absl::StatusOr<std::vector<ActorAddress>> Start(const JobPtr& job, const std::string& arguments,
                                                  const ActorLife* parent);
  absl::Status ReserveNames(Job& job);
  // In the head's hands when it is ready.
  Future<v1::Job> BeginStop(const std::string& job_id);
  // On the executor: the same, with `tries` more when the head is away.
  void End(const std::string& job_id, int tries);
  absl::Status Cancel(const std::string& job_id, absl::Duration grace);
  // Releases its names and what follows it.
  void Drop(const JobPtr& job);
  JobPtr JobOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static ActorInfo InfoOf(const Job& job, const std::string& name);

  const ProcessActorsOptions options_;
  LocalActors& names_;
  Executor& executor_;
  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Head::Stub> stub_;
  std::atomic<bool> some_ended_{false};  // Since the last Sweep.
  mutable Mutex mutex_;
  uint64_t unnamed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, JobPtr> actors_ ABSL_GUARDED_BY(mutex_);  // By name; ready once, and not ended for good.
};

}  // namespace troupe
