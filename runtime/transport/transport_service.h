// SPDX-License-Identifier: Apache-2.0
// TransportService: the gRPC service ActorTransport: each stream belongs to a channel, which has a session of the
// receiver. A channel whose stream broke waits for the next one of it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/grpc_server_channel.h"
#include "runtime/transport/server_session.h"
#include "runtime/transport/transport_counters.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {

struct TransportServiceOptions {
  std::string process_name;
  FrameLimits limits;
  absl::Duration session_timeout;  // For which a channel waits without a stream.
  std::shared_ptr<TransportCounters> counters;
  std::function<void(v1::ListConnectionsResponse&)> list;
  std::function<void()> detached;  // EndDetached should be called when the timeout is over. Any thread.
};

// Frames come and go as bytes: frame_wire.h.
using RawTransportService = v1::ActorTransport::WithRawCallbackMethod_Connect<
    v1::ActorTransport::WithCallbackMethod_ListConnections<v1::ActorTransport::Service>>;

class TransportService final : public RawTransportService {
 public:
  // `receiver` outlives the server. When it takes no more, streams are refused with UNAVAILABLE.
  TransportService(TransportServiceOptions options, CallReceiver& receiver);
  ~TransportService() override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(grpc::CallbackServerContext* context) override;

  grpc::ServerUnaryReactor* ListConnections(grpc::CallbackServerContext* context,
                                            const v1::ListConnectionsRequest* request,
                                            v1::ListConnectionsResponse* response) override;

  // Ends those that have waited too long. When the next one has; infinite when none waits.
  Monotonic EndDetached(Monotonic now);

 private:
  struct Channels;  // Outlives the service with the channels that it holds.
  const std::shared_ptr<Channels> channels_;
};

}  // namespace troupe
