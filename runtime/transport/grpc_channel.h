// SPDX-License-Identifier: Apache-2.0
// GrpcClientChannel: the dialing side of a session over gRPC streams (ActorTransport.Connect). When its stream breaks
// it dials again at once, then again and again until GiveUp; when nobody listens there any more it ends at once.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/transport_counters.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

// In the trailing metadata of a stream whose session has ended with it.
inline constexpr char kEndedTrailer[] = "troupe-ended";

struct GrpcChannelOptions {
  std::string process_name;
  FrameLimits limits;
  bool patient = false;  // It waits for a process that cannot be reached now.
  std::shared_ptr<TransportCounters> counters;
};

class GrpcClientChannel final : public FrameChannel, public std::enable_shared_from_this<GrpcClientChannel> {
 public:
  // Dials. The channel keeps itself and `sink` until it has ended.
  static std::shared_ptr<FrameChannel> Open(const std::shared_ptr<grpc::Channel>& channel, GrpcChannelOptions options,
                                            std::shared_ptr<EnvelopeSink> sink);

  absl::Status Send(Envelope&& envelope) override;
  void SendAlways(Envelope&& envelope) override;
  void End(const absl::Status& why) override;
  void GiveUp(Monotonic since) override;

 private:
  class Link;  // One stream.
  GrpcClientChannel(const std::shared_ptr<grpc::Channel>& channel, GrpcChannelOptions options,
                    std::shared_ptr<EnvelopeSink> sink);

  void Dial(bool patient);
  void DialLater();
  void WriteNext();
  // Of the link that there is; each comes to its end before the next is dialed.
  void HelloWritten();
  void Written();
  absl::Status TakeFrame(Link& link, v1::Frame& frame);
  absl::Status TakeHello(const v1::Frame& frame);
  // The stream has ended. `final`: its session with it.
  void LinkEnded(const Link& link, absl::Status why, bool final);

  grpc::GenericStub stub_;
  const GrpcChannelOptions options_;
  const uint64_t session_id_;
  std::shared_ptr<EnvelopeSink> sink_;  // Until the end.
  bool greeted_ = false;                // Of a link's thread.
  std::unique_ptr<grpc::Alarm> alarm_;  // Of DialLater, which no link is there for.
  EnvelopeReader reader_;               // Of the reading side.

  Mutex mutex_;
  FrameSession session_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Link> link_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool greets_ ABSL_GUARDED_BY(mutex_) = false;   // The hello is being written on link_.
  bool heard_ ABSL_GUARDED_BY(mutex_) = false;    // The other side's has come on it.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;     // Frames may be written on it.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // One is.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool says_goodbye_ ABSL_GUARDED_BY(mutex_) = false;  // After the write that runs.
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
  Monotonic away_since_ ABSL_GUARDED_BY(mutex_);    // While it is not open.
  bool away_told_ ABSL_GUARDED_BY(mutex_) = false;  // To the sink, since it was open.
};

}  // namespace troupe
