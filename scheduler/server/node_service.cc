// SPDX-License-Identifier: Apache-2.0
#include "scheduler/server/node_service.h"

#include <deque>

#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe::scheduler {

// One agent's stream. gRPC calls OnReadDone and OnWriteDone one at a time each; the mutex is between them and Send.
class NodeService::Stream final : public grpc::ServerBidiReactor<v1::AgentMessages, v1::HeadMessages> {
 public:
  Stream(NodeService* service, SessionId id) : service_(service), id_(id) {}
  void Begin() { StartRead(&incoming_); }

  // True: it is the first that waits for a Flush.
  bool Queue(v1::HeadToAgent message) {
    MutexLock lock(mutex_);
    if (finished_ || closing_) return false;
    if (queue_.size() >= kQueuedMax) {
      FinishLocked(absl::ResourceExhaustedError("the agent reads too slowly"));
      return false;
    }
    queue_.push_back(std::move(message));
    return queue_.size() == 1;
  }
  void Flush() {
    MutexLock lock(mutex_);
    WriteNextLocked();
  }

  // What was sent before is written first.
  void Close(const absl::Status& reason) {
    MutexLock lock(mutex_);
    if (finished_ || closing_) return;
    closing_ = true;
    reason_ = reason;
    WriteNextLocked();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Close(absl::OkStatus());
    Monotonic received = MonotonicNow();
    for (const v1::AgentToHead& message : incoming_.messages()) {
      if (message.has_register_node()) node_id_ = message.register_node().node_id();
      if (message.has_heartbeat()) AnswerHeartbeat(message.heartbeat(), received);
    }
    if (!service_->hooks_.post(FromNode{id_, std::move(incoming_), received})) {
      return Close(absl::UnavailableError("the head is overloaded or ends: dial again"));
    }
    incoming_.Clear();
    MutexLock lock(mutex_);
    if (!finished_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) return FinishLocked(absl::UnavailableError("the stream broke"));
    WriteNextLocked();
  }

  void OnCancel() override { Close(absl::CancelledError("the agent is gone")); }

  void OnDone() override {
    service_->hooks_.post(SessionClosed{id_});
    std::shared_ptr<Stream> self;  // Freed at the end of this function, outside of the lock.
    MutexLock lock(service_->mutex_);
    auto it = service_->streams_.find(id_);
    self = std::move(it->second);
    service_->streams_.erase(it);
  }

 private:
  // At once: a heartbeat waits for no decision.
  void AnswerHeartbeat(const v1::Heartbeat& heartbeat, Monotonic received) {
    v1::HeadToAgent reply;
    reply.mutable_heartbeat_reply()->set_sequence(heartbeat.sequence());
    reply.mutable_heartbeat_reply()->set_term(service_->term_);
    Queue(std::move(reply));
    Flush();
    service_->hooks_.node_heard(node_id_, received);
  }
  void WriteNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return;
    if (queue_.empty()) {
      if (closing_) FinishLocked(reason_);
      return;
    }
    writing_ = true;
    outgoing_.Clear();
    for (size_t bytes = 0; !queue_.empty() && bytes < kBytesPerWrite; queue_.pop_front()) {
      bytes += queue_.front().ByteSizeLong();
      *outgoing_.add_messages() = std::move(queue_.front());
    }
    StartWrite(&outgoing_);
  }
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    Finish(ToGrpc(status));
  }

  NodeService* const service_;
  const SessionId id_;
  std::string node_id_;         // Of the read side.
  v1::AgentMessages incoming_;  // Of the read side.
  Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::HeadToAgent> queue_ ABSL_GUARDED_BY(mutex_);
  v1::HeadMessages outgoing_ ABSL_GUARDED_BY(mutex_);  // Being written.
};

NodeService::~NodeService() { CloseAll(); }

grpc::ServerBidiReactor<v1::AgentMessages, v1::HeadMessages>* NodeService::Session(grpc::CallbackServerContext*) {
  std::shared_ptr<Stream> stream;
  bool closed = false;
  {
    MutexLock lock(mutex_);
    SessionId id = ++last_session_;
    stream = std::make_shared<Stream>(this, id);
    streams_[id] = stream;
    closed = closed_;
  }
  if (closed) {
    stream->Close(absl::UnavailableError("the head ends"));
  } else {
    stream->Begin();
  }
  return stream.get();
}

std::shared_ptr<NodeService::Stream> NodeService::Find(SessionId session) {
  MutexLock lock(mutex_);
  auto it = streams_.find(session);
  return it == streams_.end() ? nullptr : it->second;
}

void NodeService::Send(SessionId session, v1::HeadToAgent message) {
  std::shared_ptr<Stream> stream = Find(session);
  if (stream != nullptr && stream->Queue(std::move(message))) unflushed_.push_back(std::move(stream));
}

void NodeService::Flush() {
  for (const std::shared_ptr<Stream>& stream : std::exchange(unflushed_, {})) stream->Flush();
}

void NodeService::Close(SessionId session, const absl::Status& reason) {
  if (std::shared_ptr<Stream> stream = Find(session)) stream->Close(reason);
}

void NodeService::CloseAll() {
  std::map<SessionId, std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    streams = streams_;
  }
  for (const auto& [id, stream] : streams) stream->Close(absl::UnavailableError("the head ends"));
}

}  // namespace troupe::scheduler
