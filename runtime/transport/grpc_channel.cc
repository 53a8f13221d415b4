// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/grpc_channel.h"

#include <utility>

#include "runtime/rpc/status.h"
#include "runtime/transport/envelope_proto.h"

namespace troupe {
namespace {

// Hands what is no hello to the session.
absl::Status TakeEnvelopes(v1::Frame& frame, EnvelopeSink& sink) {
  for (v1::Envelope& envelope : *frame.mutable_envelopes()) {
    if (envelope.has_hello()) continue;
    if (absl::Status taken = sink.Take(FromProto(std::move(envelope))); !taken.ok()) return taken;
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<FrameChannel> GrpcClientChannel::Open(std::shared_ptr<grpc::Channel> channel,
                                                      const std::string& process_name, FrameLimits limits, bool patient,
                                                      std::shared_ptr<EnvelopeSink> sink) {
  std::shared_ptr<GrpcClientChannel> stream(new GrpcClientChannel(std::move(channel), limits, std::move(sink)));
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

GrpcClientChannel::GrpcClientChannel(std::shared_ptr<grpc::Channel> channel, FrameLimits limits,
                                     std::shared_ptr<EnvelopeSink> sink)
    : stub_(v1::ActorTransport::NewStub(std::move(channel))), sink_(std::move(sink)), queue_(limits) {}

absl::Status GrpcClientChannel::Send(Envelope&& envelope) {
  v1::Envelope proto = ToProto(std::move(envelope));
  {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the connection has just ended");
    if (!queue_.Push(std::move(proto))) {
      return absl::ResourceExhaustedError("the queue to the other process is full");
    }
  }
  WriteNext();
  return absl::OkStatus();
}

void GrpcClientChannel::SendAlways(Envelope&& envelope) {
  v1::Envelope proto = ToProto(std::move(envelope));
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    queue_.PushAlways(std::move(proto));
  }
  WriteNext();
}

void GrpcClientChannel::End(const absl::Status&) { context_.TryCancel(); }

void GrpcClientChannel::WriteNext() {
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

void GrpcClientChannel::OnWriteDone(bool ok) {
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

absl::Status GrpcClientChannel::TakeFrame() {
  bool greeted = checker_.greeted();
  if (absl::Status status = checker_.Check(read_frame_); !status.ok()) return status;
  if (!greeted) sink_->Greeted();
  return TakeEnvelopes(read_frame_, *sink_);
}

void GrpcClientChannel::OnReadDone(bool ok) {
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

void GrpcClientChannel::OnDone(const grpc::Status& status) {
  std::shared_ptr<GrpcClientChannel> self = std::move(self_);
  std::shared_ptr<EnvelopeSink> sink = std::move(sink_);
  absl::Status why = read_error_.ok() ? FromGrpc(status) : read_error_;
  if (why.ok()) why = absl::UnavailableError("the other process closed the connection");
  sink->Ended(why);
}

void GrpcServerChannel::Begin(const std::string& process_name, std::shared_ptr<EnvelopeSink> sink) {
  absl::Status ended;
  bool is_ended = false;
  {
    MutexLock lock(mutex_);
    self_ = shared_from_this();
    sink_ = sink;
    is_ended = ending_;
    ended = end_status_;
    queue_.PushHello(process_name);
    write_frame_ = *queue_.NextFrame();
    writing_ = !is_ended;
  }
  if (is_ended) {
    sink->Ended(ended);
    return Finish(ToGrpc(ended));
  }
  StartWrite(&write_frame_);
  StartRead(&read_frame_);
}

// No more reads or writes; Finish once the write that runs has ended.
void GrpcServerChannel::End(const absl::Status& why) {
  bool finish = false;
  std::shared_ptr<EnvelopeSink> sink;
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    end_status_ = why;
    finish = !writing_;
    sink = sink_;  // OnDone may come while this thread is here.
  }
  if (sink != nullptr) sink->Ended(why);  // Else Begin tells it.
  if (finish) Finish(ToGrpc(why));
}

void GrpcServerChannel::OnReadDone(bool ok) {
  if (!ok) return End(absl::OkStatus());
  if (absl::Status status = TakeFrame(); !status.ok()) return End(status);
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    read_paused_ = queue_.over_limit();
    if (read_paused_) return;
  }
  StartRead(&read_frame_);
}

absl::Status GrpcServerChannel::TakeFrame() {
  if (absl::Status status = checker_.Check(read_frame_); !status.ok()) return status;
  return TakeEnvelopes(read_frame_, *sink_);
}

absl::Status GrpcServerChannel::Send(Envelope&& envelope) {
  v1::Envelope proto = ToProto(std::move(envelope));
  {
    MutexLock lock(mutex_);
    if (ending_) return absl::UnavailableError("the connection has ended");
    queue_.PushAlways(std::move(proto));
    if (writing_) return absl::OkStatus();
    writing_ = true;
    write_frame_ = *queue_.NextFrame();
  }
  StartWrite(&write_frame_);
  return absl::OkStatus();
}

void GrpcServerChannel::OnWriteDone(bool ok) {
  bool read = false, write = false, finish = false, told = false;
  absl::Status why;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    told = ending_;
    finish = ending_ || !ok;  // Asked for while this write ran, or the connection is gone.
    if (finish) {
      ending_ = true;
      why = end_status_;
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
    if (!told) sink_->Ended(why);
    return Finish(ToGrpc(why));
  }
  if (write) StartWrite(&write_frame_);
  if (read) StartRead(&read_frame_);
}

void GrpcServerChannel::OnDone() {
  std::shared_ptr<GrpcServerChannel> self = std::move(self_);
  std::shared_ptr<EnvelopeSink> sink;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  sink.swap(sink_);
}

}  // namespace troupe
