// SPDX-License-Identifier: Apache-2.0
// HeadLink: a node agent's stream to the head. Dials, and dials again with backoff when the stream breaks; sends
// heartbeats from a thread of its own, so that nothing the agent does makes them late. What is sent while a message is
// being written leaves with the next one.
#pragma once

#include <grpcpp/channel.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/agent/agent_state.h"
#include "runtime/base/mutex.h"
#include "runtime/rpc/security.h"
#include "troupe/v1/node.grpc.pb.h"

namespace troupe::agent {

// Thread-safe. Events come one at a time, in order: HeadConnected, HeadSaid ..., HeadDisconnected. The sink may send;
// it is called on threads of gRPC's and must be quick.
class HeadLink {
 public:
  using Sink = std::function<void(AgentEvent)>;
  // A head that does not read; the stream is ended beyond it and the inventory tells everything anew.
  static constexpr size_t kQueueMax = 16'384;

  HeadLink(const std::string& target, const RpcSecurity& security, Sink sink);
  // Ends the stream.
  ~HeadLink();

  // `stream`: of HeadConnected. What is meant for a stream that has ended is dropped.
  // Sent in order.
  void Send(uint64_t stream, v1::AgentToHead message);
  // Ends the stream; the head is dialed again.
  void HangUp(uint64_t stream);
  void SetHeartbeat(uint64_t stream, absl::Duration interval, uint64_t node_incarnation);
  // Waits until what was sent has left, at most for `timeout`.
  void Flush(absl::Duration timeout);

 private:
  class Stream;

  void KeepTime();
  bool WaitToDial();
  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const absl::Status& status);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::NodeControl::Stub> stub_;
  const Sink sink_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);  // Null: none is open.
  uint64_t stream_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;  // It may be written to.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool corked_ ABSL_GUARDED_BY(mutex_) = false;  // The sink hears a message: what it sends meanwhile leaves together.
  bool welcomed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::AgentToHead> queue_ ABSL_GUARDED_BY(mutex_);
  absl::Duration backoff_ ABSL_GUARDED_BY(mutex_);
  Monotonic dial_at_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mutex_);
  uint64_t node_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t heartbeat_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  Monotonic next_heartbeat_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();  // Infinite: none yet.

  std::thread time_keeper_;
};

}  // namespace troupe::agent
