// SPDX-License-Identifier: Apache-2.0
// ProcessActors: actors that this program spawns in processes of their own, placed by a head: each is a job of one
// role, run by this very program (which becomes a worker inside Runtime::Local or Connect). Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/spawn.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "runtime/transport/transport.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe {

class ProcessActors {
 public:
  // `name`: of the runtime; jobs are called after it. `output_dir`: where the workers' logs go.
  ProcessActors(const std::string& head_target, const RpcSecurity& security, std::string name, std::string output_dir,
                std::shared_ptr<Transport> transport);
  // Cancels what is left, but for the detached, and waits for its processes to end.
  ~ProcessActors();

  // Returns when the actor is ready. FAILED_PRECONDITION: it can never fit (the message says why), or it ended while it
  // started, with the cause.
  absl::StatusOr<ActorAddress> Spawn(const std::string& actor_class, std::string arguments,
                                     const SpawnOptions& options);
  absl::StatusOr<ActorInfo> Find(const std::string& name) const;
  std::vector<ActorInfo> List() const;
  bool Owns(const ActorLife& life) const;
  absl::Status Stop(const ActorLife& life, const std::string& reason, absl::Duration grace);

 private:
  struct Entry;
  absl::StatusOr<ActorAddress> AwaitReady(Entry& entry);
  absl::Status Cancel(const std::string& job_id, absl::Duration grace);
  static ActorInfo InfoOf(const Entry& entry);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Head::Stub> stub_;
  const std::string name_;
  const std::string output_dir_;
  const std::shared_ptr<Transport> transport_;
  mutable Mutex mutex_;
  uint64_t unnamed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);  // By name.
};

}  // namespace troupe
