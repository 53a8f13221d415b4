// SPDX-License-Identifier: Apache-2.0
// GrpcServerChannel: the serving side of a session over gRPC streams. It stays when its stream breaks, and goes on with
// the next one that its dialer opens. GrpcServerLink: one stream.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/transport_counters.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

class GrpcServerChannel;

class GrpcServerLink final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Gives the channel that a stream belongs to by its hello, which has taken it, and the first frame to write.
  struct Attached {
    std::shared_ptr<GrpcServerChannel> channel;
    std::shared_ptr<const v1::Frame> hello;
  };
  using Attach = std::function<absl::StatusOr<Attached>(const v1::TransportHello& hello,
                                                        const std::shared_ptr<GrpcServerLink>& link)>;

  static std::shared_ptr<GrpcServerLink> Accept(grpc::CallbackServerContext* context, Attach attach,
                                                std::shared_ptr<TransportCounters> counters);

  // Any thread; one write at a time, the next when the channel is told. Nothing happens once it closes.
  void Write(const std::shared_ptr<const v1::Frame>& frame);
  // Any thread; once. `final`: the session has ended too.
  void Close(const absl::Status& why, bool final);

 private:
  GrpcServerLink(grpc::CallbackServerContext* context, Attach attach, std::shared_ptr<TransportCounters> counters)
      : context_(context), attach_(std::move(attach)), counters_(std::move(counters)) {}
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;
  void ReadNext();
  absl::Status TakeFrame();
  // What came cannot be: the session has ended.
  void Refuse(const absl::Status& why);
  void Finish();

  grpc::CallbackServerContext* const context_;
  const Attach attach_;
  const std::shared_ptr<TransportCounters> counters_;
  std::shared_ptr<GrpcServerLink> self_;        // Until OnDone.
  std::shared_ptr<GrpcServerChannel> channel_;  // Of the reading side; set once.
  grpc::ByteBuffer read_bytes_;
  v1::Frame read_frame_;

  Mutex mutex_;
  grpc::ByteBuffer write_bytes_;  // Of the write that runs.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool final_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status close_status_ ABSL_GUARDED_BY(mutex_);
};

// While too many envelopes wait to be written it takes no more calls: it goes on reading, for what the other side
// acknowledges and for its end, and holds the frames. They are not acknowledged, so an honest other side sends no more
// of them than it may keep.
class GrpcServerChannel final : public FrameChannel, public std::enable_shared_from_this<GrpcServerChannel> {
 public:
  struct Events {
    std::function<void()> detached;  // It has no stream now.
    std::function<void()> ended;     // The last.
  };
  GrpcServerChannel(FrameLimits limits, std::shared_ptr<TransportCounters> counters, Events events)
      : limits_(limits), counters_(std::move(counters)), events_(std::move(events)), session_(limits) {}
  // Before the first stream. Its Ended follows at once if the channel has ended.
  void SetSink(std::shared_ptr<EnvelopeSink> sink);

  // The session goes on with that stream, on which the hello is written first. ABORTED: it has a newer one, or has
  // ended. DATA_LOSS: it cannot go on, and has ended.
  absl::StatusOr<std::shared_ptr<const v1::Frame>> Attach(const v1::TransportHello& hello,
                                                          const std::string& process_name,
                                                          const std::shared_ptr<GrpcServerLink>& link);
  // When it lost its stream; infinite while it has one.
  Monotonic detached_at() const;

  // Send refuses nothing but after the end: what a caller may have open is bounded.
  absl::Status Send(Envelope&& envelope) override;
  void SendAlways(Envelope&& envelope) override { static_cast<void>(Send(std::move(envelope))); }
  void End(const absl::Status& why) override;

 private:
  friend class GrpcServerLink;
  // Of a link; nothing happens when another one took its place. Whether the link is to read on. RESOURCE_EXHAUSTED: it
  // sends more than it may keep.
  absl::StatusOr<bool> TakeFrame(const GrpcServerLink* link, v1::Frame& frame);
  absl::Status Written(const GrpcServerLink* link);
  void LinkBroken(const GrpcServerLink* link);
  void WriteNext();
  // What is held, unless too much waits to be written, or another thread does it.
  absl::Status TakeHeld();
  absl::Status TakeEnvelopes(v1::Frame& frame, EnvelopeSink& sink);
  void DropHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FrameLimits limits_;
  const std::shared_ptr<TransportCounters> counters_;
  const Events events_;
  EnvelopeReader reader_;  // Of the thread in TakeHeld that has set taking_.

  mutable Mutex mutex_;
  FrameSession session_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<EnvelopeSink> sink_ ABSL_GUARDED_BY(mutex_);  // Until the end.
  std::shared_ptr<GrpcServerLink> link_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::Frame> held_ ABSL_GUARDED_BY(mutex_);  // Of link_.
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
  Monotonic detached_at_ ABSL_GUARDED_BY(mutex_) = Monotonic::Infinite();
};

}  // namespace troupe
