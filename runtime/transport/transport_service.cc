// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport_service.h"

#include "runtime/transport/grpc_channel.h"

namespace troupe {
namespace {

// Refuses a stream at once.
class RefusedStream : public grpc::ServerBidiReactor<v1::Frame, v1::Frame> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<v1::Frame, v1::Frame>* TransportService::Connect(grpc::CallbackServerContext*) {
  auto channel = std::make_shared<GrpcServerChannel>(limits_);
  std::shared_ptr<ServerSession> session = receiver_.Accept(channel);
  if (session == nullptr) {
    return new RefusedStream(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the process is stopping"));
  }
  channel->Begin(process_name_, std::move(session));
  return channel.get();
}

}  // namespace troupe
