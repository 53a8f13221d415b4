// SPDX-License-Identifier: Apache-2.0
// Plain gRPC between two processes: what the runtime's gRPC transport is measured against.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "tools/bench/meter.h"
#include "troupe/v1/echo.grpc.pb.h"

namespace troupe::bench {

// Answers on gRPC's own threads. An answer that another one waits behind is written with a buffer hint.
class EchoService : public v1::Echo::CallbackService {
 public:
  grpc::ServerUnaryReactor* Once(grpc::CallbackServerContext* context, const v1::EchoMessage* request,
                                 v1::EchoMessage* answer) override;
  grpc::ServerBidiReactor<v1::EchoMessage, v1::EchoMessage>* Many(grpc::CallbackServerContext* context) override;
};

class BareGrpc {
 public:
  explicit BareGrpc(const std::shared_ptr<grpc::Channel>& channel) : stub_(v1::Echo::NewStub(channel)) {}

  // Microseconds: unary calls one after the other; messages on one stream one after the other.
  absl::StatusOr<double> UnaryRoundTrip(absl::Duration budget) const;
  absl::StatusOr<double> StreamRoundTrip(absl::Duration budget) const;
  // Messages a second on one stream, `in_flight` without an answer at most, written with buffer hints.
  absl::StatusOr<double> StreamMessages(absl::Duration budget, int64_t payload_bytes, int64_t in_flight) const;

 private:
  const std::unique_ptr<v1::Echo::Stub> stub_;
};

}  // namespace troupe::bench
