// SPDX-License-Identifier: Apache-2.0
// WorkerService: the agent's gRPC face towards the workers of its node (proto/troupe/v1/agent.proto).
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <map>

#include "absl/status/status.h"
#include "runtime/agent/agent_state.h"
#include "runtime/base/mutex.h"
#include "troupe/v1/agent.grpc.pb.h"

namespace troupe::agent {

// Thread-safe. Every session gives WorkerSaid events in order, then one WorkerHungUp. Heartbeats that the agent has not
// handled yet are merged, so that a session has a bounded number of events waiting.
class WorkerService : public v1::Agent::CallbackService {
 public:
  using Sink = std::function<void(AgentEvent)>;
  // Beside heartbeats a worker sends three messages in its life.
  static constexpr int kMessagesMax = 64;
  // Waiting to be written to a worker that does not read.
  static constexpr size_t kQueueMax = 64;

  explicit WorkerService(Sink sink) : sink_(std::move(sink)) {}

  grpc::ServerBidiReactor<v1::WorkerToAgent, v1::AgentToWorker>* WorkerSession(
      grpc::CallbackServerContext* context) override;

  // Dropped when the session has ended.
  void Send(WorkerSessionId session, const v1::AgentToWorker& message);
  void HangUp(WorkerSessionId session, const absl::Status& status);
  // To be called when a WorkerSaid with a heartbeat is handled.
  void HeartbeatHandled(WorkerSessionId session);

 private:
  class Session;

  const Sink sink_;
  Mutex mutex_;
  WorkerSessionId next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<WorkerSessionId, Session*> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::agent
