// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/grpc_server_channel.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"
#include "runtime/transport/frame_wire.h"
#include "runtime/transport/grpc_channel.h"

namespace troupe {
namespace {

// With what a frame costs beside its bytes.
size_t HeldBytes(const v1::Frame& frame) { return frame.ByteSizeLong() + sizeof(frame); }

}  // namespace

std::shared_ptr<GrpcServerLink> GrpcServerLink::Accept(grpc::CallbackServerContext* context, Attach attach,
                                                       std::shared_ptr<TransportCounters> counters) {
  std::shared_ptr<GrpcServerLink> link(new GrpcServerLink(context, std::move(attach), std::move(counters)));
  link->self_ = link;
  link->ReadNext();
  return link;
}

void GrpcServerLink::ReadNext() { StartRead(&read_bytes_); }

void GrpcServerLink::Write(const std::shared_ptr<const v1::Frame>& frame) {
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    writing_ = true;
  }
  write_bytes_ = ToWire(frame);
  StartWrite(&write_bytes_);
}

void GrpcServerLink::OnWriteDone(bool ok) {
  bool closing = false;
  {
    MutexLock lock(mutex_);
    writing_ = false;
    closing = closing_;
  }
  if (closing) return Finish();
  if (!ok) return;  // The reading side learns of it.
  if (absl::Status taken = channel_->Written(this); !taken.ok()) Refuse(taken);
}

void GrpcServerLink::Close(const absl::Status& why, bool final) {
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    final_ = final;
    close_status_ = why;
    if (writing_) return;  // When that has ended.
  }
  Finish();
}

void GrpcServerLink::Finish() {
  absl::Status why;
  {
    MutexLock lock(mutex_);
    why = close_status_;
    if (final_) context_->AddTrailingMetadata(kEndedTrailer, "1");
  }
  ServerBidiReactor::Finish(ToGrpc(why));
}

void GrpcServerLink::OnReadDone(bool ok) {
  if (ok) {
    absl::Status taken = TakeFrame();
    return taken.ok() ? void() : Refuse(taken);
  }
  if (channel_ != nullptr) channel_->LinkBroken(this);
  Close(absl::UnavailableError("the connection broke"), false);
}

void GrpcServerLink::Refuse(const absl::Status& why) {
  if (absl::IsInvalidArgument(why) || absl::IsDataLoss(why) || absl::IsResourceExhausted(why)) {
    ++counters_->refused_frames;
  }
  if (absl::IsAborted(why)) ++counters_->refused_sessions;
  if (channel_ != nullptr) channel_->End(why);
  Close(why, true);
}

absl::Status GrpcServerLink::TakeFrame() {
  TROUPE_RETURN_IF_ERROR(FromWire(read_bytes_, read_frame_));
  if (channel_ != nullptr && read_frame_.ends_session()) {
    return absl::CancelledError("the caller wants no more of the session");
  }
  if (channel_ != nullptr) {
    absl::StatusOr<bool> goes_on = channel_->TakeFrame(this, read_frame_);
    if (!goes_on.ok()) return goes_on.status();
    if (*goes_on) ReadNext();
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(v1::TransportHello hello, FrameSession::HelloOf(read_frame_));
  TROUPE_ASSIGN_OR_RETURN(Attached attached, attach_(hello, self_));
  channel_ = std::move(attached.channel);
  Write(attached.hello);
  ReadNext();
  return absl::OkStatus();
}

void GrpcServerLink::OnDone() { std::shared_ptr<GrpcServerLink> self = std::move(self_); }

void GrpcServerChannel::SetSink(std::shared_ptr<EnvelopeSink> sink) {
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    if (!ending_) {
      sink_ = std::move(sink);
      return;
    }
    ended = end_status_;
  }
  sink->Ended(ended);
}

absl::StatusOr<std::shared_ptr<const v1::Frame>> GrpcServerChannel::Attach(
    const v1::TransportHello& hello, const std::string& process_name, const std::shared_ptr<GrpcServerLink>& link) {
  std::shared_ptr<GrpcServerLink> older;
  std::shared_ptr<const v1::Frame> answer;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (ending_) return absl::AbortedError("the session of " + hello.process() + " has ended here");
    if (hello.epoch() <= epoch_) {
      return absl::AbortedError("stream " + std::to_string(hello.epoch()) + " of the session of " + hello.process() +
                                " came after stream " + std::to_string(epoch_));
    }
    status = session_.Begin(hello.received());
    if (status.ok()) {
      epoch_ = hello.epoch();
      older = std::exchange(link_, link);
      writing_ = true;  // The hello.
      DropHeld();
      detached_at_ = Monotonic::Infinite();
      answer = std::make_shared<v1::Frame>(session_.Hello(process_name, hello.session(), epoch_));
    }
  }
  if (!status.ok()) {
    End(status);
    return status;
  }
  if (older != nullptr) older->Close(absl::AbortedError("a newer stream of the session came"), false);
  return answer;
}

Monotonic GrpcServerChannel::detached_at() const {
  MutexLock lock(mutex_);
  return detached_at_;
}

absl::Status GrpcServerChannel::Send(Envelope&& envelope) {
  {
    MutexLock lock(mutex_);
    if (ending_) return absl::UnavailableError("the connection has ended");
    session_.PushAlways(std::move(envelope));
  }
  WriteNext();
  return absl::OkStatus();
}

void GrpcServerChannel::WriteNext() {
  std::shared_ptr<const v1::Frame> frame;
  std::shared_ptr<GrpcServerLink> link;
  {
    MutexLock lock(mutex_);
    if (writing_ || link_ == nullptr) return;
    frame = session_.Next();
    if (frame == nullptr) return;
    writing_ = true;
    link = link_;
  }
  link->Write(frame);
}

absl::Status GrpcServerChannel::Written(const GrpcServerLink* link) {
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return absl::OkStatus();
    writing_ = false;
  }
  WriteNext();
  return TakeHeld();
}

absl::StatusOr<bool> GrpcServerChannel::TakeFrame(const GrpcServerLink* link, v1::Frame& frame) {
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return false;
    TROUPE_RETURN_IF_ERROR(session_.TakeAcknowledgement(frame));
    held_bytes_ += HeldBytes(frame);
    held_.push_back(std::move(frame));
    if (held_bytes_ > limits_.held_bytes_max && held_.size() > 1) {
      return absl::ResourceExhaustedError(
          "the other process sends on, " + std::to_string(held_bytes_) +
          " bytes that are not acknowledged, and does not take the replies that wait for it");
    }
  }
  WriteNext();  // What waited for an acknowledgement goes on.
  TROUPE_RETURN_IF_ERROR(TakeHeld());
  return true;
}

absl::Status GrpcServerChannel::TakeHeld() {
  while (true) {
    v1::Frame frame;
    std::shared_ptr<EnvelopeSink> sink;
    absl::StatusOr<bool> takes = false;
    {
      MutexLock lock(mutex_);
      if (taking_ || held_.empty() || session_.over_limit()) return absl::OkStatus();
      frame = std::move(held_.front());
      held_.pop_front();
      held_bytes_ -= HeldBytes(frame);
      uint64_t before = session_.duplicates();
      takes = session_.Take(frame);
      counters_->duplicate_frames += session_.duplicates() - before;
      if (!takes.ok()) return takes.status();
      sink = sink_;
      taking_ = true;
    }
    absl::Status taken = *takes && sink != nullptr ? TakeEnvelopes(frame, *sink) : absl::OkStatus();
    {
      MutexLock lock(mutex_);
      taking_ = false;
    }
    TROUPE_RETURN_IF_ERROR(taken);
    WriteNext();  // An acknowledgement may be owed.
  }
}

absl::Status GrpcServerChannel::TakeEnvelopes(v1::Frame& frame, EnvelopeSink& sink) {
  return FrameSession::TakeEnvelopes(frame, reader_,
                                     [&sink](Envelope&& envelope) { return sink.Take(std::move(envelope)); });
}

void GrpcServerChannel::DropHeld() {
  held_.clear();
  held_bytes_ = 0;
}

void GrpcServerChannel::LinkBroken(const GrpcServerLink* link) {
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return;
    link_ = nullptr;
    DropHeld();  // They were not acknowledged, and come again.
    detached_at_ = MonotonicNow();
  }
  events_.detached();
}

void GrpcServerChannel::End(const absl::Status& why) {
  std::shared_ptr<GrpcServerLink> link;
  std::shared_ptr<EnvelopeSink> sink;
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    end_status_ = why;
    link = std::move(link_);
    sink = std::move(sink_);
    DropHeld();
  }
  if (link != nullptr) link->Close(why, true);
  if (sink != nullptr) sink->Ended(why);  // Else SetSink tells it.
  events_.ended();
}

}  // namespace troupe
