// SPDX-License-Identifier: Apache-2.0
// WorkerProcess: everything between a worker's assignment and its exit: the actor, its server, its transport, its
// directory. RunWorker (worker_main.h) gives it the environment; a test may give it another.
//
//   waits for the assignment -> constructs -> serves -> OnStart -> says ready -> [stop asked, or the actor ends itself]
//   -> OnStop -> exit code
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/actor_host.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_actors.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/object/object_store.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server.h"
#include "runtime/transport/transport.h"
#include "runtime/worker/actor_directory.h"
#include "runtime/worker/agent_link.h"
#include "runtime/worker/directory_follower.h"
#include "runtime/worker/following_router.h"

namespace troupe {

struct WorkerOptions {
  ActorLife self;
  std::string agent_socket;  // Path; the worker's own socket stands beside it.
  std::string token;
  // Of an agent that does not answer at all.
  absl::Duration assignment_timeout = absl::Seconds(60);
  // So long a process that ends waits for an agent that is being restarted, to tell it why.
  absl::Duration last_word_max = absl::Seconds(30);
};

class WorkerProcess {
 public:
  // Exit codes; worker_main.h says what they mean.
  static constexpr int kStopped = 0, kFailed = 1, kStartedWrongly = 2, kStartFailed = 3, kGraceOver = 4,
                       kUnknownWorker = 5;

  explicit WorkerProcess(WorkerOptions options);
  ~WorkerProcess();

  // The whole life; once. When it returns kGraceOver the actor's thread still runs: the process must end without
  // running destructors.
  int Run();

  // Any thread: asks to stop; the shortest grace counts.
  void Stop(const std::string& reason, absl::Duration grace);

 private:
  struct StopOrder {
    std::string reason;
    Monotonic deadline;
    int exit_code = kStopped;
  };

  void Ask(const std::string& reason, absl::Duration grace, int exit_code);
  int Live();
  std::optional<v1::WorkerAssignment> AwaitAssignment();
  absl::Status Start(const v1::WorkerAssignment& assignment);
  // Fills in setting.remote_endpoint.
  absl::Status Serve(const std::string& host, ActorSetting& setting, std::vector<grpc::Service*> services);
  int AwaitStop();
  int StopActor();
  void StopServing();
  void ActorEnded(const v1::ExitCause& cause);

  const WorkerOptions options_;
  RpcSecurity security_;
  ActorHost host_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<FollowingRouter> router_;  // What its actors call through.
  std::shared_ptr<ObjectStore> objects_;
  std::unique_ptr<ActorDirectory> directory_;
  ThreadPool children_executor_;           // Has no thread before there are children.
  std::unique_ptr<LocalActors> children_;  // What the actor spawns in this process.
  std::unique_ptr<ActorContext> context_;  // Set under mutex_; Stop looks at it.
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<ActorCell> cell_;
  std::unique_ptr<DirectoryFollower> follower_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<v1::WorkerAssignment> assignment_ ABSL_GUARDED_BY(mutex_);
  std::optional<StopOrder> stop_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<AgentLink> link_;  // Last: its thread uses what stands above.
};

}  // namespace troupe
