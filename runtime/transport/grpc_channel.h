// SPDX-License-Identifier: Apache-2.0
// FrameChannels over the gRPC stream ActorTransport.Connect: of the side that dials, and of the side that serves.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/frame_queue.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {

class GrpcClientChannel final : public FrameChannel, public grpc::ClientBidiReactor<v1::Frame, v1::Frame> {
 public:
  // Dials. The channel keeps itself and `sink` until it has ended. `patient`: it waits for a process that cannot be
  // reached now.
  static std::shared_ptr<FrameChannel> Open(std::shared_ptr<grpc::Channel> channel, const std::string& process_name,
                                            FrameLimits limits, bool patient, std::shared_ptr<EnvelopeSink> sink);

  absl::Status Send(Envelope&& envelope) override;
  void SendAlways(Envelope&& envelope) override;
  void End(const absl::Status& why) override;

 private:
  GrpcClientChannel(std::shared_ptr<grpc::Channel> channel, FrameLimits limits, std::shared_ptr<EnvelopeSink> sink);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  absl::Status TakeFrame();
  // Starts a write unless one runs.
  void WriteNext();

  const std::unique_ptr<v1::ActorTransport::Stub> stub_;
  grpc::ClientContext context_;
  std::shared_ptr<GrpcClientChannel> self_;  // Until OnDone.
  std::shared_ptr<EnvelopeSink> sink_;       // Until OnDone.

  // Of the reading side alone.
  v1::Frame read_frame_;
  FrameChecker checker_;
  absl::Status read_error_;

  Mutex mutex_;
  FrameQueue queue_ ABSL_GUARDED_BY(mutex_);
  v1::Frame write_frame_;                        // Owned by the write that runs.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // The first frame is started by Open.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Reads no further while too many envelopes wait to be written.
class GrpcServerChannel final : public FrameChannel,
                                public grpc::ServerBidiReactor<v1::Frame, v1::Frame>,
                                public std::enable_shared_from_this<GrpcServerChannel> {
 public:
  explicit GrpcServerChannel(FrameLimits limits) : queue_(limits) {}
  // From here on the channel keeps itself until gRPC is done with it.
  void Begin(const std::string& process_name, std::shared_ptr<EnvelopeSink> sink);

  // Send refuses nothing but after the end: what a caller may have open is bounded.
  absl::Status Send(Envelope&& envelope) override;
  void SendAlways(Envelope&& envelope) override { static_cast<void>(Send(std::move(envelope))); }
  void End(const absl::Status& why) override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;
  absl::Status TakeFrame();

  std::shared_ptr<GrpcServerChannel> self_;  // From Begin to OnDone.
  std::shared_ptr<EnvelopeSink> sink_;       // From Begin to OnDone.

  // Of the reading side alone.
  v1::Frame read_frame_;
  FrameChecker checker_;

  Mutex mutex_;
  FrameQueue queue_ ABSL_GUARDED_BY(mutex_);
  v1::Frame write_frame_;                        // Owned by the write that runs.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // The first frame is started by Begin.
  bool read_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
