// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/client_stream.h"

#include <utility>

#include "runtime/rpc/status.h"

namespace troupe {

std::shared_ptr<ClientStream> ClientStream::Open(std::shared_ptr<grpc::Channel> channel,
                                                 const std::string& process_name, FrameLimits limits, uint64_t id,
                                                 Events events, bool patient) {
  std::shared_ptr<ClientStream> stream(new ClientStream(std::move(channel), limits, id, std::move(events)));
  stream->self_ = stream;
  {
    MutexLock lock(stream->mutex_);
    stream->queue_.PushHello(process_name);
    stream->write_frame_ = *stream->queue_.NextFrame();
  }
  stream->context_.set_wait_for_ready(patient);
  stream->stub_->async()->Connect(&stream->context_, stream.get());
  stream->AddHold();  // Send writes from threads that are not gRPC's; given back when the reading side has ended.
  stream->StartRead(&stream->read_frame_);
  stream->StartWrite(&stream->write_frame_);
  stream->StartCall();
  return stream;
}

ClientStream::ClientStream(std::shared_ptr<grpc::Channel> channel, FrameLimits limits, uint64_t id, Events events)
    : id_(id), events_(std::move(events)), stub_(v1::ActorTransport::NewStub(std::move(channel))), queue_(limits) {}

absl::Status ClientStream::Send(v1::Envelope&& envelope) {
  {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the connection has just ended");
    if (!queue_.Push(std::move(envelope))) {
      return absl::ResourceExhaustedError("the queue to the other process is full");
    }
  }
  WriteNext();
  return absl::OkStatus();
}

void ClientStream::SendAlways(v1::Envelope&& envelope) {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    queue_.PushAlways(std::move(envelope));
  }
  WriteNext();
}

void ClientStream::WriteNext() {
  {
    MutexLock lock(mutex_);
    if (writing_ || closed_) return;
    std::optional<v1::Frame> next = queue_.NextFrame();
    if (!next.has_value()) return;
    writing_ = true;
    write_frame_ = *std::move(next);
    AddHold();  // The one of Open is still there, because it is not closed.
  }
  StartWrite(&write_frame_);
  RemoveHold();
}

void ClientStream::OnWriteDone(bool ok) {
  if (!ok) return;  // The reading side learns why; nothing more is written.
  {
    MutexLock lock(mutex_);
    std::optional<v1::Frame> next = queue_.NextFrame();
    writing_ = next.has_value();
    if (!writing_) return;
    write_frame_ = *std::move(next);
  }
  StartWrite(&write_frame_);
}

absl::Status ClientStream::TakeFrame() {
  if (absl::Status status = checker_.Check(read_frame_); !status.ok()) return status;
  greeted_ = checker_.greeted();
  for (v1::Envelope& envelope : *read_frame_.mutable_envelopes()) {
    if (envelope.has_reply()) {
      events_.reply(std::move(*envelope.mutable_reply()));
    } else if (envelope.has_item()) {
      events_.item(std::move(*envelope.mutable_item()));
    } else if (!envelope.has_hello()) {
      return absl::InvalidArgumentError("an envelope that only a caller sends");
    }
  }
  return absl::OkStatus();
}

void ClientStream::OnReadDone(bool ok) {
  if (ok) {
    read_error_ = TakeFrame();
    if (read_error_.ok()) return StartRead(&read_frame_);
    context_.TryCancel();
  }
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  RemoveHold();
}

void ClientStream::OnDone(const grpc::Status& status) {
  std::shared_ptr<ClientStream> self = std::move(self_);
  absl::Status why = read_error_.ok() ? FromGrpc(status) : read_error_;
  if (why.ok()) why = absl::UnavailableError("the other process closed the connection");
  events_.ended(checker_.greeted(), why);
}

}  // namespace troupe
