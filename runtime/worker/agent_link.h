// SPDX-License-Identifier: Apache-2.0
// AgentLink: the worker's session with the agent of its node (Agent.WorkerSession). It greets, brings the assignment
// and the order to stop, sends heartbeats from a thread of its own, and dials again for ever when the agent was
// restarted; what the worker has said stays true over that (ready, endpoints, its last word).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>
#include <optional>
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

  // `last_word_max`: so long Close waits for an agent to tell it the last word.
  AgentLink(std::shared_ptr<grpc::Channel> agent, ActorLife self, absl::Duration last_word_max, Events events);
  // Closes.
  ~AgentLink();

  // A worker that sends none for its hang_timeout is killed.
  void SetHeartbeatInterval(absl::Duration interval);
  void SayReady(const std::string& endpoint, const std::string& remote_endpoint);
  // The worker's last word: why its actor did not start, or has ended. Said again to an agent that comes later.
  void SayStartFailed(const absl::Status& error);
  void SayEnded(const std::string& text);
  // Nothing more is said. Returns when the agent has taken what was (so it knows it before it sees the process end): a
  // restarted one is waited for to tell it the last word. At the latest after a second, or `last_word_max`.
  void Close();

 private:
  using Stream = grpc::ClientReaderWriter<v1::WorkerToAgent, v1::AgentToWorker>;

  void RunSession();
  void RunHeartbeats();
  absl::Status OneSession();
  v1::WorkerToAgent Hello() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the hello does not say: what came true while it was on its way, when there was no session to write to.
  void SayTheRest(const v1::WorkerHello& said) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void SayLast(v1::WorkerToAgent word);
  // Of the session that runs: the agent ends it when it has read all.
  void EndWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // No session is to follow.
  bool Done() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const v1::AgentToWorker& message);
  // Nothing happens while there is no session.
  void Write(const v1::WorkerToAgent& message);

  const std::unique_ptr<v1::Agent::Stub> stub_;
  const ActorLife self_;
  const absl::Duration last_word_max_;
  const Events events_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Monotonic stop_at_ ABSL_GUARDED_BY(mutex_);       // When it is stopping: no session after it.
  bool heard_out_ ABSL_GUARDED_BY(mutex_) = false;  // An agent has read all.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;       // There is no session any more.
  bool assigned_ ABSL_GUARDED_BY(mutex_) = false;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  std::string endpoint_ ABSL_GUARDED_BY(mutex_);
  std::string remote_endpoint_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::WorkerToAgent> last_word_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the session that runs.

  Mutex write_mutex_;  // One write at a time; taken before mutex_.
  Stream* stream_ ABSL_GUARDED_BY(write_mutex_) = nullptr;
  bool writes_ended_ ABSL_GUARDED_BY(write_mutex_) = false;  // Of the session that runs.

  std::thread session_thread_;
  std::thread heartbeat_thread_;
};

}  // namespace troupe
