// SPDX-License-Identifier: Apache-2.0
// InstantNode: a node whose workers are ready as soon as they are asked for and gone as soon as they are stopped. It
// has no processes: with it, what a head does for a gang is measured alone.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/node.grpc.pb.h"

namespace troupe::bench {

class InstantNode {
 public:
  // Registered with the head behind `channel` when it returns.
  static absl::StatusOr<std::unique_ptr<InstantNode>> Start(const std::shared_ptr<grpc::Channel>& channel);
  ~InstantNode();

 private:
  InstantNode() = default;
  void Serve();
  void Beat();
  void Write(const v1::AgentToHead& message);

  std::unique_ptr<v1::NodeControl::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentToHead, v1::HeadToAgent>> stream_;
  absl::Duration interval_;
  uint64_t incarnation_ = 0;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reader_, heart_;
};

}  // namespace troupe::bench
