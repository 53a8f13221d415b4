// SPDX-License-Identifier: Apache-2.0
// DirectoryFollower: keeps an ActorDirectory up to date from Head.WatchActors, on a thread of its own; dials again with
// backoff when the head was away, and ends with the job.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/worker/actor_directory.h"

namespace grpc {
class ClientContext;
}

namespace troupe {

class DirectoryFollower {
 public:
  // `directory` outlives the follower.
  DirectoryFollower(std::shared_ptr<grpc::Channel> head, JobId job, ActorDirectory& directory);
  ~DirectoryFollower();

  // The job has, or the head has no such job: nothing comes any more.
  bool ended() const;

 private:
  void Run();
  // One stream until it ends. OK: the job has ended. NOT_FOUND: the head has no such job.
  absl::Status Follow();

  const std::shared_ptr<grpc::Channel> head_;
  const JobId job_;
  ActorDirectory& directory_;
  mutable Mutex mutex_;
  ConditionVariable stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the stream that runs.
  std::thread thread_;
};

}  // namespace troupe
