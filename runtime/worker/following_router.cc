// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker/following_router.h"

#include <utility>

#include "runtime/worker/actor_directory.h"
#include "runtime/worker/directory_follower.h"

namespace troupe {

namespace {

std::atomic<uint64_t> epochs{0};  // Of all routers: each number is that of one.

}  // namespace

struct FollowingRouter::Followed {
  Followed(const JobId& job, const std::shared_ptr<Transport>& transport, const std::shared_ptr<grpc::Channel>& head)
      : directory(job, "", transport,
                  [transport](const ActorLife& life, const v1::ExitCause& cause) { transport->MarkDead(life, cause); }),
        follower(head, job, directory) {}

  ActorDirectory directory;
  DirectoryFollower follower;
};

FollowingRouter::FollowingRouter(JobId own, std::shared_ptr<Transport> transport, std::shared_ptr<grpc::Channel> head)
    : CallRouter(*transport),
      own_(std::move(own)),
      transport_(std::move(transport)),
      head_(std::move(head)),
      epoch_(++epochs) {}

FollowingRouter::~FollowingRouter() = default;

void FollowingRouter::Close() {
  std::map<JobId, std::unique_ptr<Followed>> jobs;  // Their threads may be in a callback: ended outside the lock.
  MutexLock lock(mutex_);
  closed_ = true;
  epoch_ = ++epochs;
  jobs.swap(jobs_);
}

void FollowingRouter::Follow(const JobId& job) {
  if (job == own_ || head_ == nullptr) return;
  // What this thread asked for last, mostly the same again, and what was followed then: the lock is not needed for it.
  thread_local std::pair<uint64_t, JobId> last;
  if (last.first == epoch_.load(std::memory_order_acquire) && last.second == job) return;
  std::unique_ptr<Followed> ended;  // Goes outside the lock.
  MutexLock lock(mutex_);
  if (closed_) return;
  if (jobs_.count(job) == 0) {
    if (jobs_.size() >= kJobsMax) {
      auto over = jobs_.begin();
      while (over != jobs_.end() && !over->second->follower.ended()) ++over;
      if (over == jobs_.end()) return;
      ended = std::move(over->second);
      jobs_.erase(over);
      epoch_ = ++epochs;
    }
    jobs_[job] = std::make_unique<Followed>(job, transport_, head_);
  }
  last = {epoch_.load(), job};
}

uint64_t FollowingRouter::Call(const ActorAddress& target, OutgoingCall&& call) {
  Follow(target.life.path.job);
  return transport_->Call(target, std::move(call));
}

absl::Status FollowingRouter::Send(const ActorAddress& target, std::string method, std::string arguments) {
  Follow(target.life.path.job);
  return transport_->Send(target, std::move(method), std::move(arguments));
}

uint64_t FollowingRouter::Watch(const ActorAddress& target, EndedCallback ended) {
  Follow(target.life.path.job);
  return transport_->Watch(target, std::move(ended));
}

}  // namespace troupe
