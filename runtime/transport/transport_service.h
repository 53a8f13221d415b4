// SPDX-License-Identifier: Apache-2.0
// TransportService: the serving side of ActorTransport. Each stream is a ServerSession that hands calls to the host and
// writes the replies back; it reads no further while too many replies wait to be written.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <set>
#include <string>

#include "runtime/actor/actor_host.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_queue.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {

class ServerSession;

class TransportService final : public v1::ActorTransport::CallbackService {
 public:
  struct Options {
    std::string process_name;
    size_t payload_bytes_max = 0;
    FrameLimits frames;
  };
  TransportService(Options options, ActorHost& host);
  ~TransportService() override;

  grpc::ServerBidiReactor<v1::Frame, v1::Frame>* Connect(grpc::CallbackServerContext* context) override;

  // Ends every stream and refuses new ones with UNAVAILABLE.
  void Shutdown();

 private:
  friend class ServerSession;
  void Forget(const std::shared_ptr<ServerSession>& session);

  const Options options_;
  ActorHost& host_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<ServerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
