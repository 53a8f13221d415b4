// SPDX-License-Identifier: Apache-2.0
// TransportService: the serving side of ActorTransport. Each stream is a ServerSession that hands calls to the host and
// writes the replies back; it reads no further while too many replies wait to be written.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "runtime/actor/actor_host.h"
#include "runtime/base/mutex.h"
#include "runtime/transport/frame_queue.h"
#include "runtime/transport/reply_book.h"
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
  // Of calls that may be repeated; shared with their replies, which may come after the service has gone.
  struct SharedBook {
    // The newest stream of each caller that repeats calls: what an older one still brings was sent again on it. One
    // number for each process that ever did. Held while a call is taken and delivered, so that both keep one order.
    Mutex order_mutex;
    std::unordered_map<uint64_t, uint64_t> newest ABSL_GUARDED_BY(order_mutex);

    Mutex mutex;
    ReplyBook book ABSL_GUARDED_BY(mutex);
  };
  void Forget(const std::shared_ptr<ServerSession>& session);

  const Options options_;
  ActorHost& host_;
  Mutex mutex_;
  const std::shared_ptr<SharedBook> book_ = std::make_shared<SharedBook>();
  uint64_t sessions_made_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<ServerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
