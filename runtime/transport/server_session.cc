// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/server_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe {

std::shared_ptr<ServerSession> CallReceiver::Accept(std::shared_ptr<FrameChannel> channel, Connection connection) {
  MutexLock lock(mutex_);
  if (stopping_) return nullptr;
  auto session = std::make_shared<ServerSession>(*this, std::move(channel), std::move(connection), ++sessions_made_);
  sessions_.insert(session);
  return session;
}

std::vector<Connection> CallReceiver::Connections() const {
  MutexLock lock(mutex_);
  std::vector<Connection> connections;
  for (const auto& session : sessions_) connections.push_back(session->connection());
  return connections;
}

void CallReceiver::Confirm(uint64_t session, uint64_t call, Envelope&& confirm) {
  std::shared_ptr<ServerSession> to;
  {
    MutexLock lock(mutex_);
    for (const auto& open : sessions_) {
      if (open->number() == session) to = open;
    }
  }
  if (to != nullptr) to->Confirm(call, std::move(confirm));
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
  if (envelope.transfer != 0 && envelope.kind == Envelope::Kind::kCall) {
    TROUPE_RETURN_IF_ERROR(payloads_.Finish(*channel_, envelope));
  }
  switch (envelope.kind) {
    case Envelope::Kind::kChunk:
    case Envelope::Kind::kCredit:
      return TakeTransfer(std::move(envelope));
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
    case Envelope::Kind::kAck:
      Acknowledge(envelope.repeat);
      return absl::OkStatus();
    case Envelope::Kind::kProbe:
      return receiver_.probed_(number_, envelope.bytes);
    default:
      return absl::InvalidArgumentError("an envelope that only a receiver sends");
  }
}

absl::Status ServerSession::TakeTransfer(Envelope&& envelope) {
  std::vector<std::pair<Envelope, absl::Status>> refused;
  TROUPE_RETURN_IF_ERROR(payloads_.Take(*channel_, std::move(envelope), refused));
  for (auto& [reply, why] : refused) {
    Reply(reply.call_id, false, CallErrorStatus(v1::CallError::CALL_TOO_LARGE, "the result: " + MessageOf(why)));
  }
  return absl::OkStatus();
}

void ServerSession::Send(Envelope&& envelope) {
  if (payloads_.Passes(envelope.bytes.size())) return channel_->SendAlways(std::move(envelope));
  MutexLock lock(payloads_.mutex);
  PayloadSender& sender = payloads_.sender;
  bool full = sender.bytes() + envelope.bytes.size() > limits_.payload_bytes_max && !sender.idle();
  if (full && envelope.kind == Envelope::Kind::kReply) {  // Items are bounded by their window.
    envelope.status =
        TooLarge("the result, with those that wait to be sent to this caller,", sender.bytes() + envelope.bytes.size());
    envelope.bytes.clear();
  }
  const PayloadSender::Lane lane = envelope.call_id;
  payloads_.SendOut(*channel_, sender.Push(std::move(envelope), lane));
}

void ServerSession::Confirm(uint64_t call, Envelope&& confirm) {
  MutexLock lock(payloads_.mutex);
  if (!payloads_.sender.Holds(call)) channel_->SendAlways(std::move(confirm));
}

absl::Status ServerSession::TakeCall(Envelope&& envelope) {
  IncomingCall incoming;
  incoming.method = envelope.route->method;
  incoming.arguments = std::move(envelope.bytes);
  incoming.deadline = DeadlineIn(std::clamp(envelope.timeout, absl::ZeroDuration(), kCallTimeoutMax));
  if (uint64_t id = envelope.call_id; id != 0) {  // Else one way.
    incoming.key = {this, id};
    incoming.reply = [self = shared_from_this(), id, streams = envelope.streams](absl::StatusOr<std::string> result) {
      self->Reply(id, streams, std::move(result));
    };
    if (envelope.streams) incoming.sink = OpenStream(id, {envelope.items, envelope.item_bytes});
  } else if (envelope.streams) {
    return absl::InvalidArgumentError("a stream without an id");
  }
  if (envelope.repeats) {
    if (envelope.call_id == 0 || envelope.streams) return absl::InvalidArgumentError("what cannot be repeated");
    return DeliverOnce(envelope.repeat, envelope.route, incoming);
  }
  Deliver(envelope.route, std::move(incoming));
  return absl::OkStatus();
}

void ServerSession::Deliver(const std::shared_ptr<const CallRoute>& route, IncomingCall call) {
  if (route != last_route_) {
    last_route_ = route;
    last_cell_ = host_.CellOf(route->target);
  }
  std::shared_ptr<ActorCell> cell = last_cell_.lock();
  if (cell != nullptr && cell->TryDeliver(call).ok()) return;
  last_route_ = nullptr;
  host_.Deliver(route->target, std::move(call));  // It says why not.
}

absl::Status ServerSession::DeliverOnce(const RepeatKey& key, const std::shared_ptr<const CallRoute>& route,
                                        IncomingCall& call) {
  MutexLock order(book_->order_mutex);
  if (line_over_) return absl::OkStatus();  // The caller goes on elsewhere, or has given it up.
  if (!line_.has_value()) {
    MutexLock lock(book_->mutex);
    if (book_->book.BeginLine(key.caller, key.line, MonotonicNow())) line_ = key;
  } else if (line_->caller != key.caller || line_->line != key.line) {
    return absl::InvalidArgumentError("a second caller of calls that may be repeated on one connection");
  }
  if (!line_.has_value()) {
    call.reply(
        CallErrorStatus(v1::CallError::CALL_OVERLOADED,
                        "too many processes have repeated calls to this one: restart it, or do without retries"));
  } else if (BeginOnce(key, call)) {
    Deliver(route, std::move(call));
  }
  return absl::OkStatus();
}

void ServerSession::Acknowledge(const RepeatKey& key) {
  MutexLock order(book_->order_mutex);
  // Of a call that was never sent there may be an ack all the same.
  if (!line_.has_value() || line_over_ || line_->caller != key.caller || line_->line != key.line) return;
  MutexLock lock(book_->mutex);
  book_->book.Acknowledge(key);
}

bool ServerSession::BeginOnce(const RepeatKey& key, IncomingCall& call) {
  ReplyBook::Begun begun;
  {
    MutexLock lock(book_->mutex);
    begun = book_->book.Begin(key, call.deadline, MonotonicNow(), call.reply);
  }
  switch (begun.verdict) {
    case ReplyBook::Verdict::kRun:
      call.reply = [book = book_, key = ReplyBook::Key{key.caller, key.number}](absl::StatusOr<std::string> result) {
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
    case ReplyBook::Verdict::kForgotten:
      call.reply(
          CallErrorStatus(v1::CallError::CALL_UNAVAILABLE,
                          "the call came again after its time; it may have run, its reply is not kept any more"));
      return false;
    case ReplyBook::Verdict::kWait:
    case ReplyBook::Verdict::kStale:
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
  {
    MutexLock order(book_->order_mutex);
    MutexLock lock(book_->mutex);
    if (line_.has_value() && !line_over_) book_->book.EndLine(line_->caller, MonotonicNow());
    line_over_ = true;
  }
  receiver_.Forget(shared_from_this());
}

void ServerSession::Item(uint64_t call_id, std::string item) {
  if (item.size() > limits_.payload_bytes_max) {
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
  Send(std::move(envelope));
}

absl::Status ServerSession::TooLarge(const std::string& what, size_t bytes) const {
  return CallErrorStatus(v1::CallError::CALL_TOO_LARGE, what + " has " + std::to_string(bytes) +
                                                            " bytes, more than the " +
                                                            std::to_string(limits_.payload_bytes_max) + " allowed");
}

void ServerSession::Reply(uint64_t call_id, bool streams, absl::StatusOr<std::string> result) {
  if (result.ok() && result->size() > limits_.payload_bytes_max) result = TooLarge("the result", result->size());
  if (streams) {
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
  Send(std::move(envelope));
}

}  // namespace troupe
