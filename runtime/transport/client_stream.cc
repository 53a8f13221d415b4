// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/client_stream.h"

#include <utility>

#include "absl/hash/hash.h"
#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

const absl::Status& Cancelled() {
  static const absl::Status status = absl::CancelledError("the connection is not wanted any more");
  return status;
}

// Calls to one actor keep their order.
PayloadSender::Lane LaneOf(const Envelope& envelope) {
  if (envelope.kind != Envelope::Kind::kCall) return 0;
  const ActorPath& path = envelope.route->target.path;
  return absl::HashOf(path.job, path.role, path.replica) | 1;
}

}  // namespace

std::shared_ptr<ClientStream> ClientStream::Open(ClientStreamOptions options, Events events) {
  std::shared_ptr<ClientStream> stream(new ClientStream(std::move(options), std::move(events)));
  if (stream->options_.rings != nullptr) {
    stream->DialRings();
  } else {
    stream->Connected(stream->options_.dial_grpc(stream->options_.patient, stream));
  }
  return stream;
}

void ClientStream::DialRings() {
  auto dialed = [self = shared_from_this()](absl::StatusOr<std::shared_ptr<FrameChannel>> channel) {
    if (!channel.ok()) return self->DialGrpc(StatusText(channel.status()));
    {
      MutexLock lock(self->mutex_);
      self->on_rings_ = true;
    }
    self->Connected(*std::move(channel));
  };
  options_.rings->Dial(options_.ring_socket, shared_from_this(), std::move(dialed));
}

void ClientStream::DialGrpc(const std::string& why) {
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    why_grpc_ = why;
    cancelled = cancelled_;
  }
  if (cancelled) return Ended(Cancelled());
  events_.fell_back(why);
  Connected(options_.dial_grpc(options_.patient, shared_from_this()));
}

void ClientStream::Connected(std::shared_ptr<FrameChannel> channel) {
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    for (Envelope& envelope : waiting_) static_cast<void>(SendThrough(*channel, std::move(envelope), true));
    waiting_.clear();
    waiting_bytes_ = 0;
    channel_ = channel;
    connected_.store(channel.get(), std::memory_order_release);
    cancelled = cancelled_;
  }
  if (cancelled) channel->End(Cancelled());
}

absl::Status ClientStream::SendOr(Envelope&& envelope, bool always) {
  FrameChannel* channel = connected_.load(std::memory_order_acquire);
  if (channel == nullptr) {
    MutexLock lock(mutex_);
    channel = channel_.get();
    if (channel == nullptr) {
      bool full = waiting_.size() >= options_.limits.queue_envelopes_max ||
                  waiting_bytes_ + envelope.bytes.size() > options_.limits.queue_bytes_max;
      if (full && !waiting_.empty() && !always) {
        return absl::ResourceExhaustedError("the queue to the other process is full");
      }
      waiting_bytes_ += envelope.bytes.size();
      waiting_.push_back(std::move(envelope));
      return absl::OkStatus();
    }
  }
  if (!payloads_.Passes(envelope.bytes.size())) return SendThrough(*channel, std::move(envelope), always);
  if (!always) return channel->Send(std::move(envelope));
  channel->SendAlways(std::move(envelope));
  return absl::OkStatus();
}

absl::Status ClientStream::SendThrough(FrameChannel& channel, Envelope&& envelope, bool always) {
  MutexLock lock(payloads_.mutex);
  const PayloadSender& sender = payloads_.sender;
  PayloadSender::Lane lane = LaneOf(envelope);
  bool large = envelope.bytes.size() > options_.transfers.whole_bytes_max;
  if (!always && !large && !sender.Holds(lane)) return channel.Send(std::move(envelope));
  bool full = sender.held() >= options_.limits.queue_envelopes_max ||
              sender.bytes() + envelope.bytes.size() > options_.transfers.payload_bytes_max;
  if (!always && full && !sender.idle()) {
    return absl::ResourceExhaustedError("large messages to the other process, and what waits behind them, hold " +
                                        std::to_string(sender.bytes()) + " bytes already");
  }
  payloads_.SendOut(channel, payloads_.sender.Push(std::move(envelope), lane));
  return absl::OkStatus();
}

void ClientStream::CancelCall(Envelope&& cancel) {
  FrameChannel* channel = connected_.load(std::memory_order_acquire);
  if (channel != nullptr && payloads_.busy()) {
    MutexLock lock(payloads_.mutex);
    payloads_.SendOut(*channel, payloads_.sender.Drop(cancel.call_id));
  }
  SendAlways(std::move(cancel));
}

FrameChannel& ClientStream::channel() {
  if (FrameChannel* channel = connected_.load(std::memory_order_acquire); channel != nullptr) return *channel;
  MutexLock lock(mutex_);  // What waited is just being sent.
  return *channel_;
}

absl::Status ClientStream::TakeTransfer(Envelope&& envelope) {
  std::vector<std::pair<Envelope, absl::Status>> refused;
  TROUPE_RETURN_IF_ERROR(payloads_.Take(channel(), std::move(envelope), refused));
  for (auto& [call, why] : refused) {
    Envelope reply;
    reply.kind = Envelope::Kind::kReply;
    reply.call_id = call.call_id;
    reply.status = CallErrorStatus(v1::CallError::CALL_TOO_LARGE, MessageOf(why) + "; the call did not run");
    events_.reply(std::move(reply));
  }
  return absl::OkStatus();
}

void ClientStream::GiveUp(Monotonic since) {
  FrameChannel* channel = connected_.load(std::memory_order_acquire);
  if (channel != nullptr) return channel->GiveUp(since);
  given_up_ = true;
  Cancel();
}

void ClientStream::Broken(const absl::Status& why) {
  broken_ = true;
  events_.broken(why);
}

void ClientStream::Cancel() {
  std::shared_ptr<FrameChannel> channel;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    channel = channel_;
  }
  if (channel != nullptr) channel->End(Cancelled());
}

std::string ClientStream::Describe() const {
  MutexLock lock(mutex_);
  if (channel_ == nullptr) return "being dialed";
  std::string how = on_rings_ ? "shared-memory rings" : "gRPC stream: " + why_grpc_;
  return broken_ ? how + "; its connection broke and is dialed again" : how;
}

absl::Status ClientStream::Take(Envelope&& envelope) {
  if (envelope.kind == Envelope::Kind::kChunk || envelope.kind == Envelope::Kind::kCredit) {
    return TakeTransfer(std::move(envelope));
  }
  if (envelope.transfer != 0) TROUPE_RETURN_IF_ERROR(payloads_.Finish(channel(), envelope));
  if (envelope.kind == Envelope::Kind::kReply) {
    events_.reply(std::move(envelope));
  } else if (envelope.kind == Envelope::Kind::kItem) {
    events_.item(std::move(envelope));
  } else if (envelope.kind == Envelope::Kind::kConfirm) {
    return events_.confirm(envelope.bytes);
  } else {
    return absl::InvalidArgumentError("an envelope that only a caller sends");
  }
  return absl::OkStatus();
}

void ClientStream::Ended(const absl::Status& why) { events_.ended(greeted_.load(), why); }

}  // namespace troupe
