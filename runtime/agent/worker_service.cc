// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/worker_service.h"

#include <atomic>
#include <deque>
#include <optional>

#include "runtime/rpc/status.h"

namespace troupe::agent {

// Deletes itself when gRPC is done with it; until then the service's map holds it.
class WorkerService::Session : public grpc::ServerBidiReactor<v1::WorkerToAgent, v1::AgentToWorker> {
 public:
  Session(WorkerService* service, WorkerSessionId id) : service_(service), id_(id) {}

  void Begin() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    if (incoming_.has_heartbeat()) {
      if (!heartbeat_waits_.exchange(true)) service_->sink_(WorkerSaid{id_, incoming_});
    } else if (++messages_ > kMessagesMax) {
      return End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many messages on one session"));
    } else {
      service_->sink_(WorkerSaid{id_, incoming_});
    }
    MutexLock lock(mutex_);
    if (!ended_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    queue_.pop_front();
    if (ended_) return;
    if (!ok) {
      queue_.clear();
    } else if (!queue_.empty()) {
      StartWrite(&queue_.front());
    } else if (end_after_writes_.has_value()) {
      ended_ = true;
      Finish(*end_after_writes_);
    }
  }

  void OnCancel() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "the session was cancelled")); }

  void OnDone() override {
    {
      MutexLock lock(service_->mutex_);
      service_->sessions_.erase(id_);
    }
    service_->sink_(WorkerHungUp{id_});
    delete this;
  }

  void Send(const v1::AgentToWorker& message) {
    MutexLock lock(mutex_);
    if (ended_ || end_after_writes_.has_value() || queue_.size() >= kQueueMax) return;
    queue_.push_back(message);
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  // After what was sent before.
  void HangUp(const grpc::Status& status) {
    MutexLock lock(mutex_);
    if (ended_) return;
    if (!queue_.empty()) {
      end_after_writes_ = status;
      return;
    }
    ended_ = true;
    Finish(status);
  }

  void HeartbeatHandled() { heartbeat_waits_ = false; }

 private:
  void End(const grpc::Status& status) {
    MutexLock lock(mutex_);
    if (std::exchange(ended_, true)) return;
    Finish(status);
  }

  WorkerService* const service_;
  const WorkerSessionId id_;
  v1::WorkerToAgent incoming_;
  int messages_ = 0;
  std::atomic<bool> heartbeat_waits_ = false;

  Mutex mutex_;
  std::deque<v1::AgentToWorker> queue_ ABSL_GUARDED_BY(mutex_);  // The first one is being written.
  std::optional<grpc::Status> end_after_writes_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ServerBidiReactor<v1::WorkerToAgent, v1::AgentToWorker>* WorkerService::WorkerSession(
    grpc::CallbackServerContext*) {
  Session* session;
  {
    MutexLock lock(mutex_);
    WorkerSessionId id = next_++;
    session = new Session(this, id);
    sessions_[id] = session;
  }
  session->Begin();
  return session;
}

// The service's lock is held while a session is used: it cannot be deleted meanwhile.
void WorkerService::Send(WorkerSessionId session, const v1::AgentToWorker& message) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second->Send(message);
}

void WorkerService::HangUp(WorkerSessionId session, const absl::Status& status) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second->HangUp(ToGrpc(status));
}

void WorkerService::HeartbeatHandled(WorkerSessionId session) {
  MutexLock lock(mutex_);
  auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second->HeartbeatHandled();
}

}  // namespace troupe::agent
