// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport_service.h"

#include <algorithm>
#include <map>
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
  ServerSession(TransportService& service, const TransportService::Options& options, ActorHost& host, uint64_t number)
      : service_(service), options_(options), host_(host), number_(number), queue_(options.frames) {}

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
    bool finish = false;
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      ending_ = true;
      end_status_ = status;
      finish = !writing_;
    }
    CancelStreams();
    if (finish) Finish(status);
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
      absl::Status taken;
      if (envelope.has_call()) {
        taken = TakeCall(*envelope.mutable_call());
      } else if (envelope.has_grant()) {
        if (auto sink = SinkOf(envelope.grant().call_id()))
          sink->Grant(envelope.grant().items(), envelope.grant().bytes());
      } else if (envelope.has_cancel()) {
        TakeCancel(envelope.cancel());
      } else if (envelope.has_ack()) {
        MutexLock lock(service_.book_->mutex);
        service_.book_->book.Acknowledge({envelope.ack().key().caller(), envelope.ack().key().number()});
      } else {
        taken = absl::InvalidArgumentError("an envelope that only a receiver sends");
      }
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  absl::Status TakeCall(v1::ActorCall& call) {
    absl::Duration left = absl::Milliseconds(std::max<int64_t>(call.deadline_ms(), 0));
    IncomingCall incoming;
    incoming.method = std::move(*call.mutable_method());
    incoming.arguments = std::move(*call.mutable_arguments());
    incoming.deadline = MonotonicNow() + std::min(left, kCallTimeoutMax);
    if (uint64_t id = call.call_id(); id != 0) {  // Else one way.
      incoming.key = {this, id};
      incoming.reply = [self = shared_from_this(), id](absl::StatusOr<std::string> result) {
        self->Reply(id, std::move(result));
      };
      if (call.has_window()) incoming.sink = OpenStream(id, {call.window().items(), call.window().bytes()});
    } else if (call.has_window()) {
      return absl::InvalidArgumentError("a stream without an id");
    }
    if (call.has_retry()) {
      if (incoming.key.id == 0 || call.has_window()) return absl::InvalidArgumentError("what cannot be repeated");
      DeliverOnce({call.retry().caller(), call.retry().number()}, ActorLife::FromProto(call.target()), incoming);
      return absl::OkStatus();
    }
    host_.Deliver(ActorLife::FromProto(call.target()), std::move(incoming));
    return absl::OkStatus();
  }

  void DeliverOnce(const ReplyBook::Key& key, const ActorLife& target, IncomingCall& call) {
    MutexLock order(service_.book_->order_mutex);
    uint64_t& newest = service_.book_->newest[key.first];
    if (number_ < newest) return;  // The caller sends it again on a later stream, and listens there.
    newest = number_;
    if (BeginOnce(key, call)) host_.Deliver(target, std::move(call));
  }

  // Whether this call is to run now; if not, its reply is sent, or will be.
  bool BeginOnce(const ReplyBook::Key& key, IncomingCall& call) {
    ReplyBook::Begun begun;
    {
      MutexLock lock(service_.book_->mutex);
      begun = service_.book_->book.Begin(key, call.deadline, MonotonicNow(), call.reply);
    }
    switch (begun.verdict) {
      case ReplyBook::Verdict::kRun:
        call.reply = [book = service_.book_, key](absl::StatusOr<std::string> result) {
          ReplyCallback to;
          {
            MutexLock lock(book->mutex);
            to = book->book.Finish(key, result);
          }
          if (to) to(std::move(result));
        };
        return true;
      case ReplyBook::Verdict::kKnown:
        call.reply(*begun.reply);
        return false;
      case ReplyBook::Verdict::kRefused:
        call.reply(CallErrorStatus(v1::CallError::CALL_OVERLOADED,
                                   "this process keeps too many replies that the caller has not acknowledged"));
        return false;
      case ReplyBook::Verdict::kWait:
        return false;
    }
    return false;
  }

  void TakeCancel(const v1::CallCancel& cancel) {
    if (auto sink = SinkOf(cancel.call_id())) return sink->Cancel();
    host_.CancelCall(ActorLife::FromProto(cancel.target()), {this, cancel.call_id()});
  }

  std::shared_ptr<StreamSink> OpenStream(uint64_t call_id, StreamWindow window) {
    auto sink = std::make_shared<StreamSink>(
        [weak = weak_from_this(), call_id](std::string item) {
          if (auto self = weak.lock()) self->Item(call_id, std::move(item));
        },
        window);
    MutexLock lock(mutex_);
    streams_[call_id].sink = sink;
    return sink;
  }

  std::shared_ptr<StreamSink> SinkOf(uint64_t call_id) {
    MutexLock lock(mutex_);
    auto found = streams_.find(call_id);
    return found == streams_.end() ? nullptr : found->second.sink;
  }

  void CancelStreams() {
    std::map<uint64_t, OpenStreamCall> streams;
    {
      MutexLock lock(mutex_);
      streams.swap(streams_);
    }
    for (auto& [id, stream] : streams) stream.sink->Cancel();
  }

  void Item(uint64_t call_id, std::string item) {
    if (item.size() > options_.payload_bytes_max) {
      absl::Status error = TooLarge("an item of the stream", item.size());
      std::shared_ptr<StreamSink> sink;
      {
        MutexLock lock(mutex_);
        auto found = streams_.find(call_id);
        if (found == streams_.end()) return;
        found->second.error = error;
        sink = found->second.sink;
      }
      return sink->Cancel();
    }
    v1::Envelope envelope;
    envelope.mutable_item()->set_call_id(call_id);
    envelope.mutable_item()->set_value(std::move(item));
    Write(std::move(envelope));
  }

  absl::Status TooLarge(const std::string& what, size_t bytes) const {
    return CallErrorStatus(v1::CallError::CALL_OVERLOADED, what + " has " + std::to_string(bytes) +
                                                               " bytes, more than the " +
                                                               std::to_string(options_.payload_bytes_max) + " allowed");
  }

  void Reply(uint64_t call_id, absl::StatusOr<std::string> result) {
    if (result.ok() && result->size() > options_.payload_bytes_max) result = TooLarge("the result", result->size());
    {
      MutexLock lock(mutex_);
      auto found = streams_.find(call_id);
      if (found != streams_.end()) {
        if (!found->second.error.ok()) result = found->second.error;
        streams_.erase(found);
      }
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
    Write(std::move(envelope));
  }

  void Write(v1::Envelope&& envelope) {
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
    if (finish) {
      CancelStreams();
      return Finish(end_status_);
    }
    if (write) StartWrite(&write_frame_);
    if (read) StartRead(&read_frame_);
  }

  void OnDone() override { service_.Forget(shared_from_this()); }

  struct OpenStreamCall {
    std::shared_ptr<StreamSink> sink;
    absl::Status error;  // Of the transport's own.
  };

  TransportService& service_;
  const TransportService::Options& options_;
  ActorHost& host_;
  const uint64_t number_;  // Later streams have higher ones.

  // Of the reading side alone.
  v1::Frame read_frame_;
  FrameChecker checker_;

  Mutex mutex_;
  FrameQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, OpenStreamCall> streams_ ABSL_GUARDED_BY(mutex_);  // By call.
  v1::Frame write_frame_;                                               // Owned by the write that runs.
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
  std::shared_ptr<ServerSession> session;
  {
    MutexLock lock(mutex_);
    session = std::make_shared<ServerSession>(*this, options_, host_, ++sessions_made_);
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
