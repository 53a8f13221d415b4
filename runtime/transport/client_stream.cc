// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/client_stream.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {
namespace {

const absl::Status& Cancelled() {
  static const absl::Status status = absl::CancelledError("the connection is not wanted any more");
  return status;
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
    for (Envelope& envelope : waiting_) channel->SendAlways(std::move(envelope));
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
  if (!always) return channel->Send(std::move(envelope));
  channel->SendAlways(std::move(envelope));
  return absl::OkStatus();
}

void ClientStream::GiveUp() {
  if (greeted_.load()) return;
  given_up_ = true;
  Cancel();
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
  if (on_rings_) return "shared-memory rings";
  return "gRPC stream: " + why_grpc_;
}

absl::Status ClientStream::Take(Envelope&& envelope) {
  if (envelope.kind == Envelope::Kind::kReply) {
    events_.reply(std::move(envelope));
  } else if (envelope.kind == Envelope::Kind::kItem) {
    events_.item(std::move(envelope));
  } else {
    return absl::InvalidArgumentError("an envelope that only a caller sends");
  }
  return absl::OkStatus();
}

void ClientStream::Ended(const absl::Status& why) { events_.ended(greeted_.load(), why); }

}  // namespace troupe
