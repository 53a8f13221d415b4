// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/actor/call_error.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe {

// One stream. Replies come from actors' threads at any time, also after the stream has ended: they hold the session,
// and the session knows whether it may still write.
class ServerSession : public grpc::ServerBidiReactor<v1::Frame, v1::Frame>,
                      public std::enable_shared_from_this<ServerSession> {
 public:
  ServerSession(TransportService& service, const TransportService::Options& options, ActorHost& host)
      : service_(service), options_(options), host_(host), queue_(options.frames) {}

  void Begin() {
    {
      MutexLock lock(mutex_);
      queue_.PushHello(options_.process_name);
      write_frame_ = *queue_.NextFrame();
    }
    StartWrite(&write_frame_);
    StartRead(&read_frame_);
  }

  // No more reads or writes; Finish once the write that runs has ended.
  void End(const grpc::Status& status) {
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      ending_ = true;
      end_status_ = status;
      if (writing_) return;
    }
    Finish(status);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    if (absl::Status status = TakeFrame(); !status.ok()) return End(ToGrpc(status));
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      read_paused_ = queue_.over_limit();
      if (read_paused_) return;
    }
    StartRead(&read_frame_);
  }

  absl::Status TakeFrame() {
    if (absl::Status status = checker_.Check(read_frame_); !status.ok()) return status;
    for (v1::Envelope& envelope : *read_frame_.mutable_envelopes()) {
      if (envelope.has_hello()) continue;
      if (!envelope.has_call()) return absl::InvalidArgumentError("an envelope that only a receiver sends");
      if (absl::Status status = TakeCall(*envelope.mutable_call()); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status TakeCall(v1::ActorCall& call) {
    if (call.call_id() == 0) return absl::InvalidArgumentError("a call without an id");
    absl::Duration left = absl::Milliseconds(std::max<int64_t>(call.deadline_ms(), 0));
    IncomingCall incoming = {std::move(*call.mutable_method()), std::move(*call.mutable_arguments()),
                             MonotonicNow() + std::min(left, kCallTimeoutMax),
                             [self = shared_from_this(), id = call.call_id()](absl::StatusOr<std::string> result) {
                               self->Reply(id, std::move(result));
                             }};
    host_.Deliver(ActorLife::FromProto(call.target()), std::move(incoming));
    return absl::OkStatus();
  }

  void Reply(uint64_t call_id, absl::StatusOr<std::string> result) {
    if (result.ok() && result->size() > options_.payload_bytes_max) {
      result = CallErrorStatus(v1::CallError::CALL_OVERLOADED,
                               "the result has " + std::to_string(result->size()) + " bytes, more than the " +
                                   std::to_string(options_.payload_bytes_max) + " allowed");
    }
    v1::Envelope envelope;
    v1::ActorReply& reply = *envelope.mutable_reply();
    reply.set_call_id(call_id);
    if (result.ok()) {
      reply.set_result(*std::move(result));
    } else {
      *reply.mutable_status() = ToErrorStatus(result.status());
      *reply.mutable_error() = CallErrorOf(result.status());
    }
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      queue_.PushAlways(std::move(envelope));
      if (writing_) return;
      writing_ = true;
      write_frame_ = *queue_.NextFrame();
    }
    StartWrite(&write_frame_);
  }

  void OnWriteDone(bool ok) override {
    bool read = false, write = false, finish = false;
    {
      MutexLock lock(mutex_);
      writing_ = false;
      finish = ending_ || !ok;  // Asked for while this write ran, or the connection is gone.
      if (finish) {
        ending_ = true;
      } else {
        if (std::optional<v1::Frame> next = queue_.NextFrame(); next.has_value()) {
          write = writing_ = true;
          write_frame_ = *std::move(next);
        }
        read = read_paused_ && !queue_.over_limit();
        if (read) read_paused_ = false;
      }
    }
    if (finish) return Finish(end_status_);
    if (write) StartWrite(&write_frame_);
    if (read) StartRead(&read_frame_);
  }

  void OnDone() override { service_.Forget(shared_from_this()); }

  TransportService& service_;
  const TransportService::Options& options_;
  ActorHost& host_;

  // Of the reading side alone.
  v1::Frame read_frame_;
  FrameChecker checker_;

  Mutex mutex_;
  FrameQueue queue_ ABSL_GUARDED_BY(mutex_);
  v1::Frame write_frame_;  // Owned by the write that runs.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;
  bool read_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ = grpc::Status::OK;
};

namespace {

// Refuses a stream at once.
class RefusedStream : public grpc::ServerBidiReactor<v1::Frame, v1::Frame> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

TransportService::TransportService(Options options, ActorHost& host) : options_(std::move(options)), host_(host) {}

TransportService::~TransportService() = default;

grpc::ServerBidiReactor<v1::Frame, v1::Frame>* TransportService::Connect(grpc::CallbackServerContext*) {
  auto session = std::make_shared<ServerSession>(*this, options_, host_);
  {
    MutexLock lock(mutex_);
    if (stopping_) return new RefusedStream(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the process is stopping"));
    sessions_.insert(session);
  }
  session->Begin();
  return session.get();
}

void TransportService::Shutdown() {
  std::vector<std::shared_ptr<ServerSession>> sessions;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    sessions.assign(sessions_.begin(), sessions_.end());
  }
  for (const auto& session : sessions) {
    session->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the process is stopping"));
  }
}

void TransportService::Forget(const std::shared_ptr<ServerSession>& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session);
}

}  // namespace troupe
