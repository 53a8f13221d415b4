// SPDX-License-Identifier: Apache-2.0
// TransportService: the gRPC service ActorTransport: each stream becomes a channel with a session of the receiver.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "runtime/transport/frame_queue.h"
#include "runtime/transport/server_session.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {

class TransportService final : public v1::ActorTransport::CallbackService {
 public:
  // `receiver` outlives the server. When it takes no more, streams are refused with UNAVAILABLE.
  TransportService(std::string process_name, FrameLimits limits, CallReceiver& receiver)
      : process_name_(std::move(process_name)), limits_(limits), receiver_(receiver) {}

  grpc::ServerBidiReactor<v1::Frame, v1::Frame>* Connect(grpc::CallbackServerContext* context) override;

 private:
  const std::string process_name_;
  const FrameLimits limits_;
  CallReceiver& receiver_;
};

}  // namespace troupe
