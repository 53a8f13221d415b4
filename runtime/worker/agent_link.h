// SPDX-License-Identifier: Apache-2.0
// AgentLink: the worker's session with the agent of its node (Agent.WorkerSession). It greets, brings the assignment
// and the order to stop, sends heartbeats from a thread of its own, and dials again for ever when the agent was
// restarted; what the worker has said stays true over that (ready, endpoints).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/agent.grpc.pb.h"

namespace troupe {

class AgentLink {
 public:
  // On the link's thread, one at a time.
  struct Events {
    std::function<void(const v1::WorkerAssignment&)> assigned;  // Once.
    std::function<void(const v1::WorkerStop&)> stop;            // May be repeated.
    std::function<void(const absl::Status&)> unknown;           // NOT_FOUND: the process must end. The link has ended.
  };

  AgentLink(std::shared_ptr<grpc::Channel> agent, ActorLife self, Events events);
  // Ends the session.
  ~AgentLink();

  // A worker that sends none for its hang_timeout is killed.
  void SetHeartbeatInterval(absl::Duration interval);
  void SayReady(const std::string& endpoint, const std::string& remote_endpoint);
  // Returns when it was written (or the agent is away: it will see the exit).
  void SayStartFailed(const absl::Status& error);
  // The same.
  void SayEnded(const std::string& text);
  // Nothing is said any more. Returns when the agent has taken what was (so it knows it before it sees the process
  // end), or after a second.
  void Close();

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerToAgent, v1::AgentToWorker>;

  void RunSession();
  void RunHeartbeats();
  absl::Status OneSession();
  v1::WorkerToAgent Hello() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What came true while the hello was on its way, when there was no session to write to.
  void SayWhatIsNew(const v1::WorkerHello& said);
  void Take(const v1::AgentToWorker& message);
  // Nothing happens while there is no session.
  void Write(const v1::WorkerToAgent& message);

  const std::unique_ptr<v1::Agent::Stub> stub_;
  const ActorLife self_;
  const Events events_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool assigned_ ABSL_GUARDED_BY(mutex_) = false;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  std::string endpoint_ ABSL_GUARDED_BY(mutex_);
  std::string remote_endpoint_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the session that runs.

  Mutex write_mutex_;  // One write at a time; taken before nothing.
  Stream* stream_ ABSL_GUARDED_BY(write_mutex_) = nullptr;

  std::thread session_thread_;
  std::thread heartbeat_thread_;
};

}  // namespace troupe
