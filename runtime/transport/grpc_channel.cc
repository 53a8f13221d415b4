// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/grpc_channel.h"

#include <grpc/support/time.h>

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/status.h"
#include "runtime/transport/frame_wire.h"

namespace troupe {
namespace {

// After an attempt to dial again that failed.
constexpr int kRedialPauseMs = 50;
constexpr char kConnectMethod[] = "/troupe.v1.ActorTransport/Connect";

// What a stream that broke ends with; others are the other side's word.
bool MayComeBack(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsInternal(status) ||
         absl::IsUnknown(status);
}

}  // namespace

class GrpcClientChannel::Link final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Link(std::shared_ptr<GrpcClientChannel> channel, v1::Frame hello, bool patient)
      : channel_(std::move(channel)), write_bytes_(ToWire(std::make_shared<const v1::Frame>(std::move(hello)))) {
    context_.set_wait_for_ready(patient);
  }

  // Holds itself until OnDone.
  void Begin(std::shared_ptr<Link> self, grpc::GenericStub& stub) {
    self_ = std::move(self);
    stub.PrepareBidiStreamingCall(&context_, kConnectMethod, grpc::StubOptions(), this);
    AddHold();  // Frames are written from threads that are not gRPC's; given back when the reading has ended.
    StartRead(&read_bytes_);
    StartWrite(&write_bytes_);
    StartCall();
  }
  // While the channel is open on this link, and nothing else is written.
  void Write(const std::shared_ptr<const v1::Frame>& frame) {
    write_bytes_ = ToWire(frame);
    StartWrite(&write_bytes_);
  }
  void SayGoodbye() {
    auto goodbye = std::make_shared<v1::Frame>();
    goodbye->set_ends_session(true);
    Write(goodbye);
  }
  void Cancel() { context_.TryCancel(); }

  bool greeted = false;    // The other side's hello has come. Of the reading side.
  bool connected = false;  // The hello was written. Of the writing side, and when it is done.

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      error_ = FromWire(read_bytes_, read_frame_);
      if (error_.ok()) error_ = channel_->TakeFrame(*this, read_frame_);
      if (error_.ok()) return StartRead(&read_bytes_);
      if (absl::IsInvalidArgument(error_) || absl::IsDataLoss(error_)) ++channel_->options_.counters->refused_frames;
      context_.TryCancel();
    }
    {
      MutexLock lock(channel_->mutex_);
      channel_->open_ = false;
      channel_->away_since_ = MonotonicNow();
    }
    RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return;  // The reading side learns why; nothing more is written.
    if (std::exchange(connected, true)) return channel_->Written();
    channel_->HelloWritten();
  }
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<Link> self = std::move(self_);
    std::shared_ptr<GrpcClientChannel> channel = std::move(channel_);
    bool ended = context_.GetServerTrailingMetadata().count(kEndedTrailer) > 0;
    absl::Status why = error_.ok() ? FromGrpc(status) : error_;
    if (why.ok()) why = absl::UnavailableError("the other process closed the connection");
    channel->LinkEnded(*this, why, ended || !error_.ok() || !MayComeBack(why));
  }

  std::shared_ptr<GrpcClientChannel> channel_;
  std::shared_ptr<Link> self_;
  grpc::ClientContext context_;
  grpc::ByteBuffer write_bytes_;
  grpc::ByteBuffer read_bytes_;
  v1::Frame read_frame_;
  absl::Status error_;  // Of what came.
};

std::shared_ptr<FrameChannel> GrpcClientChannel::Open(const std::shared_ptr<grpc::Channel>& channel,
                                                      GrpcChannelOptions options, std::shared_ptr<EnvelopeSink> sink) {
  bool patient = options.patient;
  std::shared_ptr<GrpcClientChannel> opened(new GrpcClientChannel(channel, std::move(options), std::move(sink)));
  opened->Dial(patient);
  return opened;
}

GrpcClientChannel::GrpcClientChannel(const std::shared_ptr<grpc::Channel>& channel, GrpcChannelOptions options,
                                     std::shared_ptr<EnvelopeSink> sink)
    : stub_(channel),
      options_(std::move(options)),
      session_id_(RandomUint64() | 1),
      sink_(std::move(sink)),
      session_(options_.limits),
      away_since_(MonotonicNow()) {}

void GrpcClientChannel::Dial(bool patient) {
  std::shared_ptr<Link> link;
  bool ending = false;
  {
    MutexLock lock(mutex_);
    v1::Frame hello = session_.Hello(options_.process_name, session_id_, ++epoch_);
    greets_ = true;
    heard_ = false;
    link = link_ = std::make_shared<Link>(shared_from_this(), std::move(hello), patient);
    ending = ending_;
  }
  link->Begin(link, stub_);
  if (ending) link->Cancel();
}

// Never patient: what cannot be reached is to say why, so that the session of a process that has ended is not waited
// for.
void GrpcClientChannel::DialLater() {
  alarm_ = std::make_unique<grpc::Alarm>();
  gpr_timespec pause = gpr_time_from_millis(kRedialPauseMs, GPR_TIMESPAN);
  alarm_->Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), pause), [self = shared_from_this()](bool) mutable {
    std::shared_ptr<GrpcClientChannel> channel = std::move(self);  // The alarm keeps this function.
    channel->Dial(false);
  });
}

absl::Status GrpcClientChannel::Send(Envelope&& envelope) {
  {
    MutexLock lock(mutex_);
    if (ending_) return absl::UnavailableError("the connection has just ended");
    if (!session_.Push(std::move(envelope))) {
      return absl::ResourceExhaustedError("the queue to the other process is full");
    }
  }
  WriteNext();
  return absl::OkStatus();
}

void GrpcClientChannel::SendAlways(Envelope&& envelope) {
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    session_.PushAlways(std::move(envelope));
  }
  WriteNext();
}

void GrpcClientChannel::WriteNext() {
  std::shared_ptr<const v1::Frame> frame;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(mutex_);
    if (writing_ || !open_ || ending_) return;
    frame = session_.Next();
    if (frame == nullptr) return;
    writing_ = true;
    link = link_;
    link->AddHold();  // The one of Begin is still there, because the channel is open.
  }
  link->Write(frame);
  link->RemoveHold();
}

void GrpcClientChannel::HelloWritten() {
  if (!std::exchange(greeted_, true)) sink_->Greeted();
  {
    MutexLock lock(mutex_);
    greets_ = false;
    open_ = epoch_ == 1 || heard_;  // Later, what the other side has is to be heard first.
  }
  WriteNext();
}

void GrpcClientChannel::Written() {
  std::shared_ptr<const v1::Frame> frame;
  std::shared_ptr<Link> link;
  bool goodbye = false;
  {
    MutexLock lock(mutex_);
    if (open_ && !ending_) frame = session_.Next();
    goodbye = std::exchange(says_goodbye_, false);
    writing_ = frame != nullptr || goodbye;
    link = link_;
  }
  if (frame != nullptr) link->Write(frame);
  if (goodbye) link->SayGoodbye();
}

absl::Status GrpcClientChannel::TakeHello(const v1::Frame& frame) {
  absl::StatusOr<v1::TransportHello> hello = FrameSession::HelloOf(frame);
  if (!hello.ok()) return hello.status();
  bool resumed = false;
  {
    MutexLock lock(mutex_);
    if (hello->session() != session_id_ || hello->epoch() != epoch_) {
      return absl::InvalidArgumentError("the other process greets for another session");
    }
    resumed = epoch_ > 1;
    away_told_ = false;
    if (resumed) {
      TROUPE_RETURN_IF_ERROR(session_.Begin(hello->received()));
      heard_ = true;
      open_ = !greets_;
    }
  }
  if (!resumed) return absl::OkStatus();
  ++options_.counters->resumed;
  sink_->Resumed();
  WriteNext();
  return absl::OkStatus();
}

absl::Status GrpcClientChannel::TakeFrame(Link& link, v1::Frame& frame) {
  if (!std::exchange(link.greeted, true)) return TakeHello(frame);
  absl::StatusOr<bool> takes = false;
  {
    MutexLock lock(mutex_);
    uint64_t before = session_.duplicates();
    takes = session_.Take(frame);
    options_.counters->duplicate_frames += session_.duplicates() - before;
  }
  if (!takes.ok()) return takes.status();
  if (*takes)
    TROUPE_RETURN_IF_ERROR(FrameSession::TakeEnvelopes(
        frame, reader_, [this](Envelope&& envelope) { return sink_->Take(std::move(envelope)); }));
  WriteNext();  // An acknowledgement may be owed, or what waited for one goes on.
  return absl::OkStatus();
}

void GrpcClientChannel::LinkEnded(const Link& link, absl::Status why, bool final) {
  bool was_there = link.connected && link.greeted, tell = false;
  {
    MutexLock lock(mutex_);
    open_ = writing_ = says_goodbye_ = false;
    link_ = nullptr;
    if (ending_ && !end_status_.ok()) why = end_status_;
    final = final || ending_ || !greeted_ || (!was_there && NobodyListens(why));
    ending_ = final;
    tell = !std::exchange(away_told_, true);
  }
  if (!final) {
    if (tell) {
      ++options_.counters->broken;
      sink_->Broken(why);
    }
    return was_there ? Dial(false) : DialLater();
  }
  std::shared_ptr<EnvelopeSink> sink = std::move(sink_);
  sink->Ended(why);
}

void GrpcClientChannel::End(const absl::Status& why) {
  std::shared_ptr<Link> link;
  bool goodbye = false;
  {
    MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    end_status_ = why;
    link = link_;
    says_goodbye_ = open_ && writing_;
    goodbye = open_ && !writing_;
    if (says_goodbye_ || link == nullptr) return;
    if (goodbye) {
      writing_ = true;
      link->AddHold();
    }
  }
  if (!goodbye) return link->Cancel();
  link->SayGoodbye();
  link->RemoveHold();
}

void GrpcClientChannel::GiveUp(Monotonic since) {
  {
    MutexLock lock(mutex_);
    if (open_ || away_since_ > since) return;
  }
  End(absl::DeadlineExceededError("the other process could not be reached again in time"));
}

}  // namespace troupe
