// SPDX-License-Identifier: Apache-2.0
// NodeService: the sessions of node agents (service NodeControl). Each stream is a reactor of gRPC's callback API, so
// that sessions cost no threads. Heartbeats are answered here, at once; everything else is decided.
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "scheduler/core/events.h"
#include "troupe/v1/node.grpc.pb.h"

namespace troupe::scheduler {

class NodeService final : public v1::NodeControl::CallbackService {
 public:
  // Messages that wait to be written to one agent; an agent that reads no more is cut off.
  static constexpr size_t kQueuedMax = 50'000;
  // Of one message on the wire, unless one alone is larger: far below what gRPC takes.
  static constexpr size_t kBytesPerWrite = 256 << 10;

  struct Hooks {
    std::function<bool(Event)> post;                                // It must not block. False: it takes no more.
    std::function<void(const std::string&, Monotonic)> node_heard;  // A heartbeat arrived.
  };
  explicit NodeService(Hooks hooks) : hooks_(std::move(hooks)) {}
  ~NodeService() override;

  void set_term(uint64_t term) { term_ = term; }

  grpc::ServerBidiReactor<v1::AgentMessages, v1::HeadMessages>* Session(grpc::CallbackServerContext* context) override;

  // Dropped when the session has ended. It leaves with the next Flush, with all that was sent before it; by one thread
  // at a time, and Flush too.
  void Send(SessionId session, v1::HeadToAgent message);
  void Flush();
  void Close(SessionId session, const absl::Status& reason);
  // Ends every session with UNAVAILABLE and refuses new ones.
  void CloseAll();

 private:
  class Stream;
  std::shared_ptr<Stream> Find(SessionId session);

  const Hooks hooks_;
  std::atomic<uint64_t> term_{0};
  std::vector<std::shared_ptr<Stream>> unflushed_;
  Mutex mutex_;
  SessionId last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<SessionId, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
