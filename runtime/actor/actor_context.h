// SPDX-License-Identifier: Apache-2.0
// ActorContext: what an actor is told about itself and its surroundings when it starts. Lives as long as the actor;
// safe to use from any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "runtime/actor/call_router.h"
#include "runtime/actor/ref.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "troupe/v1/head.pb.h"

namespace grpc {
class Channel;
}

namespace troupe {

class ActorDirectory;

// What the node agent said at the start (WorkerAssignment), and what the process made of it.
struct ActorSetting {
  ActorLife self;
  std::string node_id;
  v1::RoleSpec role;
  int restarts = 0;             // Of this replica so far.
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
  // `directory` and `router` may be null in tests; they outlive the context.
  ActorContext(ActorSetting setting, std::shared_ptr<CallRouter> router, ActorDirectory* directory);
  ~ActorContext();

  const ActorSetting& setting() const { return setting_; }
  const ActorLife& self() const { return setting_.self; }

  // The job's actors: where they live now, who died (runtime/worker/actor_directory.h).
  ActorDirectory& directory() const { return *directory_; }

  template <typename T>
  Ref<T> MakeRef(ActorAddress address) const {
    return Ref<T>(std::move(address), router_);
  }

  // A channel with the token to the head, or to another process; kept and shared for the context's life.
  std::shared_ptr<grpc::Channel> HeadChannel() { return ChannelTo(setting_.head_endpoint); }
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& endpoint);

  // True once the process was asked to stop: a long handler should come to its end.
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  void SetStopping() { stopping_.store(true, std::memory_order_relaxed); }

 private:
  const ActorSetting setting_;
  const std::shared_ptr<CallRouter> router_;
  ActorDirectory* const directory_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
