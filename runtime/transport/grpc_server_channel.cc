// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/grpc_server_channel.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"
#include "runtime/transport/frame_wire.h"
#include "runtime/transport/grpc_channel.h"

namespace troupe {

std::shared_ptr<GrpcServerLink> GrpcServerLink::Accept(grpc::CallbackServerContext* context, Attach attach,
                                                       std::shared_ptr<TransportCounters> counters) {
  std::shared_ptr<GrpcServerLink> link(new GrpcServerLink(context, std::move(attach), std::move(counters)));
  link->self_ = link;
  link->ReadNext();
  return link;
}

void GrpcServerLink::ReadNext() {
  {
    MutexLock lock(mutex_);
    ++reads_;
  }
  StartRead(&read_bytes_);
}

std::shared_ptr<GrpcServerChannel> GrpcServerLink::channel() const {
  MutexLock lock(mutex_);
  return channel_;
}

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
  ok ? channel()->Written(this) : Lost();
}

void GrpcServerLink::OnCancel() { Lost(); }

void GrpcServerLink::Lost() {
  {
    MutexLock lock(mutex_);
    lost_ = true;
    if (reads_ > 0) return;
  }
  Broken();
}

void GrpcServerLink::ReadEnded() {
  {
    MutexLock lock(mutex_);
    if (--reads_ > 0 || !lost_) return;
  }
  Broken();
}

void GrpcServerLink::Broken() {
  if (auto broken = channel()) broken->LinkBroken(this);
  Close(absl::UnavailableError("the connection broke"), false);
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
  if (!ok) return Broken();
  absl::Status taken = TakeFrame();
  if (taken.ok()) return ReadEnded();
  if (absl::IsInvalidArgument(taken) || absl::IsDataLoss(taken)) ++counters_->refused_frames;
  if (absl::IsAborted(taken)) ++counters_->refused_sessions;
  if (auto refuses = channel()) refuses->End(taken);
  Close(taken, true);
}

absl::Status GrpcServerLink::TakeFrame() {
  TROUPE_RETURN_IF_ERROR(FromWire(read_bytes_, read_frame_));
  if (auto known = channel()) {
    if (read_frame_.ends_session()) return absl::CancelledError("the caller wants no more of the session");
    TROUPE_ASSIGN_OR_RETURN(bool goes_on, known->TakeFrame(this, read_frame_));
    if (goes_on) ReadNext();
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(v1::TransportHello hello, FrameSession::HelloOf(read_frame_));
  TROUPE_ASSIGN_OR_RETURN(Attached attached, attach_(hello, self_));
  {
    MutexLock lock(mutex_);
    channel_ = std::move(attached.channel);
  }
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
    MutexLock taking(take_mutex_);  // What an older stream has brought is done.
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
      read_paused_ = false;
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

void GrpcServerChannel::Written(const GrpcServerLink* link) {
  std::shared_ptr<GrpcServerLink> reads;
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return;
    writing_ = false;
    if (read_paused_ && !session_.over_limit()) {
      read_paused_ = false;
      reads = link_;
    }
  }
  WriteNext();
  if (reads != nullptr) reads->ReadNext();
}

absl::StatusOr<bool> GrpcServerChannel::TakeFrame(const GrpcServerLink* link, v1::Frame& frame) {
  MutexLock taking(take_mutex_);
  absl::StatusOr<bool> takes = false;
  std::shared_ptr<EnvelopeSink> sink;
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return false;
    sink = sink_;
    uint64_t before = session_.duplicates();
    takes = session_.Take(frame);
    counters_->duplicate_frames += session_.duplicates() - before;
  }
  if (!takes.ok()) return takes.status();
  if (*takes && sink != nullptr) {
    TROUPE_RETURN_IF_ERROR(FrameSession::TakeEnvelopes(
        frame, reader_, [&sink](Envelope&& envelope) { return sink->Take(std::move(envelope)); }));
  }
  WriteNext();  // An acknowledgement may be owed, or what waited for one goes on.
  MutexLock lock(mutex_);
  if (link != link_.get()) return false;
  read_paused_ = session_.over_limit();
  return !read_paused_;
}

void GrpcServerChannel::LinkBroken(const GrpcServerLink* link) {
  {
    MutexLock lock(mutex_);
    if (link != link_.get()) return;
    link_ = nullptr;
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
  }
  if (link != nullptr) link->Close(why, true);
  if (sink != nullptr) sink->Ended(why);  // Else SetSink tells it.
  events_.ended();
}

}  // namespace troupe
