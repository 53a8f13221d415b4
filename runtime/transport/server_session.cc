// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/server_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/actor/call_error.h"
#include "runtime/env/clock.h"

namespace troupe {

std::shared_ptr<ServerSession> CallReceiver::Accept(std::shared_ptr<FrameChannel> channel) {
  MutexLock lock(mutex_);
  if (stopping_) return nullptr;
  auto session = std::make_shared<ServerSession>(*this, std::move(channel), ++sessions_made_);
  sessions_.insert(session);
  return session;
}

void CallReceiver::Shutdown() {
  std::vector<std::shared_ptr<ServerSession>> sessions;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    sessions.assign(sessions_.begin(), sessions_.end());
  }
  for (const auto& session : sessions) session->channel().End(absl::UnavailableError("the process is stopping"));
}

void CallReceiver::Forget(const std::shared_ptr<ServerSession>& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session);
}

absl::Status ServerSession::Take(Envelope&& envelope) {
  switch (envelope.kind) {
    case Envelope::Kind::kCall:
      return TakeCall(std::move(envelope));
    case Envelope::Kind::kGrant:
      if (auto sink = SinkOf(envelope.call_id)) sink->Grant(envelope.items, envelope.item_bytes);
      return absl::OkStatus();
    case Envelope::Kind::kCancel:
      if (auto sink = SinkOf(envelope.call_id)) {
        sink->Cancel();
      } else {
        host_.CancelCall(envelope.route->target, {this, envelope.call_id});
      }
      return absl::OkStatus();
    case Envelope::Kind::kAck: {
      MutexLock lock(book_->mutex);
      book_->book.Acknowledge({envelope.caller, envelope.number});
      return absl::OkStatus();
    }
    default:
      return absl::InvalidArgumentError("an envelope that only a receiver sends");
  }
}

absl::Status ServerSession::TakeCall(Envelope&& envelope) {
  IncomingCall incoming;
  incoming.method = envelope.route->method;
  incoming.arguments = std::move(envelope.bytes);
  incoming.deadline = MonotonicNow() + std::clamp(envelope.timeout, absl::ZeroDuration(), kCallTimeoutMax);
  if (uint64_t id = envelope.call_id; id != 0) {  // Else one way.
    incoming.key = {this, id};
    incoming.reply = [self = shared_from_this(), id](absl::StatusOr<std::string> result) {
      self->Reply(id, std::move(result));
    };
    if (envelope.streams) incoming.sink = OpenStream(id, {envelope.items, envelope.item_bytes});
  } else if (envelope.streams) {
    return absl::InvalidArgumentError("a stream without an id");
  }
  if (envelope.repeats) {
    if (envelope.call_id == 0 || envelope.streams) return absl::InvalidArgumentError("what cannot be repeated");
    DeliverOnce({envelope.caller, envelope.number}, envelope.route->target, incoming);
    return absl::OkStatus();
  }
  host_.Deliver(envelope.route->target, std::move(incoming));
  return absl::OkStatus();
}

void ServerSession::DeliverOnce(const ReplyBook::Key& key, const ActorLife& target, IncomingCall& call) {
  MutexLock order(book_->order_mutex);
  uint64_t& newest = book_->newest[key.first];
  if (number_ < newest) return;  // The caller sends it again on a later session, and listens there.
  newest = number_;
  if (BeginOnce(key, call)) host_.Deliver(target, std::move(call));
}

bool ServerSession::BeginOnce(const ReplyBook::Key& key, IncomingCall& call) {
  ReplyBook::Begun begun;
  {
    MutexLock lock(book_->mutex);
    begun = book_->book.Begin(key, call.deadline, MonotonicNow(), call.reply);
  }
  switch (begun.verdict) {
    case ReplyBook::Verdict::kRun:
      call.reply = [book = book_, key](absl::StatusOr<std::string> result) {
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

std::shared_ptr<StreamSink> ServerSession::OpenStream(uint64_t call_id, StreamWindow window) {
  auto sink = std::make_shared<StreamSink>(
      [weak = weak_from_this(), call_id](std::string item) {
        if (auto self = weak.lock()) self->Item(call_id, std::move(item));
      },
      window);
  {
    MutexLock lock(mutex_);
    if (!ended_) {
      streams_[call_id].sink = sink;
      return sink;
    }
  }
  sink->Cancel();
  return sink;
}

std::shared_ptr<StreamSink> ServerSession::SinkOf(uint64_t call_id) {
  MutexLock lock(mutex_);
  auto found = streams_.find(call_id);
  return found == streams_.end() ? nullptr : found->second.sink;
}

void ServerSession::Ended(const absl::Status&) {
  std::map<uint64_t, OpenStreamCall> streams;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    streams.swap(streams_);
  }
  for (auto& [id, stream] : streams) stream.sink->Cancel();
  receiver_.Forget(shared_from_this());
}

void ServerSession::Item(uint64_t call_id, std::string item) {
  if (item.size() > payload_bytes_max_) {
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
  Envelope envelope;
  envelope.kind = Envelope::Kind::kItem;
  envelope.call_id = call_id;
  envelope.bytes = std::move(item);
  channel_->SendAlways(std::move(envelope));
}

absl::Status ServerSession::TooLarge(const std::string& what, size_t bytes) const {
  return CallErrorStatus(v1::CallError::CALL_TOO_LARGE, what + " has " + std::to_string(bytes) +
                                                            " bytes, more than the " +
                                                            std::to_string(payload_bytes_max_) + " allowed");
}

void ServerSession::Reply(uint64_t call_id, absl::StatusOr<std::string> result) {
  if (result.ok() && result->size() > payload_bytes_max_) result = TooLarge("the result", result->size());
  {
    MutexLock lock(mutex_);
    auto found = streams_.find(call_id);
    if (found != streams_.end()) {
      if (!found->second.error.ok()) result = found->second.error;
      streams_.erase(found);
    }
  }
  Envelope envelope;
  envelope.kind = Envelope::Kind::kReply;
  envelope.call_id = call_id;
  envelope.status = result.status();
  if (result.ok()) envelope.bytes = *std::move(result);
  channel_->SendAlways(std::move(envelope));
}

}  // namespace troupe
