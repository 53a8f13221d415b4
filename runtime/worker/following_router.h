// SPDX-License-Identifier: Apache-2.0
// FollowingRouter: the router of a worker's actors. Calls go through the transport; the first call, message or watch
// that names an actor of another job makes it follow that job's directory at the head, so that the deaths of its actors
// end calls and are told as those of the own job are. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "runtime/actor/call_router.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/transport.h"

namespace troupe {

class FollowingRouter final : public CallRouter {
 public:
  // One thread and one stream to the head each, until the job ends. Of those beyond it deaths are not told: calls to
  // them end with CALL_UNAVAILABLE.
  static constexpr size_t kJobsMax = 64;

  // `head`: null: there is none, and nothing is followed.
  FollowingRouter(JobId own, std::shared_ptr<Transport> transport, std::shared_ptr<grpc::Channel> head);
  ~FollowingRouter() override;

  // Follows nothing any more. Before the transport's Shutdown.
  void Close();

  uint64_t Call(const ActorAddress& target, OutgoingCall&& call) override;
  absl::Status Send(const ActorAddress& target, std::string method, std::string arguments) override;
  void Cancel(uint64_t call) override { transport_->Cancel(call); }
  void Grant(uint64_t call, size_t items, size_t bytes) override { transport_->Grant(call, items, bytes); }
  void WaitReading(uint64_t call, internal::FutureBase& gate, Monotonic deadline) override {
    transport_->WaitReading(call, gate, deadline);
  }
  ActorPlace Locate(ActorAddress address) const override { return transport_->Locate(std::move(address)); }
  std::vector<Connection> Connections() const override { return transport_->Connections(); }
  uint64_t Watch(const ActorAddress& target, EndedCallback ended) override;
  void Unwatch(uint64_t watch) override { transport_->Unwatch(watch); }

 private:
  struct Followed;
  void Follow(const JobId& job);

  const JobId own_;
  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<grpc::Channel> head_;
  std::atomic<uint64_t> epoch_;  // A new one when a job is not followed any more.
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<JobId, std::unique_ptr<Followed>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
