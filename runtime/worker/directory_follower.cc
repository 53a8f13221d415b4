// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/directory_follower.h"

#include <grpcpp/client_context.h>

#include <algorithm>

#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe {
namespace {

constexpr absl::Duration kRetryFirst = absl::Milliseconds(100);
constexpr absl::Duration kRetryMax = absl::Seconds(2);

}  // namespace

DirectoryFollower::DirectoryFollower(std::shared_ptr<grpc::Channel> head, JobId job, ActorDirectory& directory)
    : head_(std::move(head)), job_(std::move(job)), directory_(directory), thread_([this] { Run(); }) {}

DirectoryFollower::~DirectoryFollower() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    stopped_.NotifyAll();
  }
  thread_.join();
}

bool DirectoryFollower::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

void DirectoryFollower::Run() {
  absl::Duration retry = kRetryFirst;
  while (true) {
    Monotonic started = MonotonicNow();
    absl::Status ended = Follow();
    if (ended.ok() || absl::IsNotFound(ended)) {
      MutexLock lock(mutex_);
      ended_ = true;
      return;
    }
    // A stream that lived for a while was good: begin with short waits again.
    retry = MonotonicNow() - started > kRetryMax ? kRetryFirst : std::min(2 * retry, kRetryMax);
    MutexLock lock(mutex_);
    if (stopped_.WaitUntil(lock, MonotonicNow() + retry, [this] { return stopping_; })) return;
  }
}

absl::Status DirectoryFollower::Follow() {
  grpc::ClientContext context;
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("the follower ends");
    context_ = &context;
  }
  v1::WatchActorsRequest request;
  request.set_job_id(job_.value());
  auto reader = v1::Head::NewStub(head_)->WatchActors(&context, request);
  v1::ActorUpdate update;
  while (reader->Read(&update)) directory_.Apply(update);
  absl::Status ended = FromGrpc(reader->Finish());
  MutexLock lock(mutex_);
  context_ = nullptr;
  return ended;
}

}  // namespace troupe
