// SPDX-License-Identifier: Apache-2.0
// ClientStream: this process' stream to one other process (the dialing side of ActorTransport.Connect).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/transport/frame_queue.h"
#include "troupe/v1/actor.grpc.pb.h"

namespace troupe {

class ClientStream : public grpc::ClientBidiReactor<v1::Frame, v1::Frame> {
 public:
  struct Events {
    // On gRPC's threads, one at a time.
    std::function<void(v1::ActorReply&&)> reply;
    std::function<void(v1::StreamItem&&)> item;
    // Once, as the last. `greeted`: the other side had answered, so what was sent may have run.
    std::function<void(bool greeted, const absl::Status& status)> ended;
  };

  // Dials. The stream keeps itself until it has ended. `patient`: it waits for a process that cannot be reached now.
  static std::shared_ptr<ClientStream> Open(std::shared_ptr<grpc::Channel> channel, const std::string& process_name,
                                            FrameLimits limits, uint64_t id, Events events, bool patient = false);

  uint64_t id() const { return id_; }

  // Any thread. RESOURCE_EXHAUSTED: the queue is full. UNAVAILABLE: the stream has ended.
  absl::Status Send(v1::Envelope&& envelope);
  // Never refused: for grants and cancels, whose number open calls bound. Nothing happens after the end.
  void SendAlways(v1::Envelope&& envelope);

  // Ends it, unless the other process has greeted.
  void GiveUp() {
    if (greeted_.load()) return;
    given_up_ = true;
    context_.TryCancel();
  }
  bool given_up() const { return given_up_.load(); }

  // Ends it soon; `ended` follows.
  void Cancel() { context_.TryCancel(); }

 private:
  ClientStream(std::shared_ptr<grpc::Channel> channel, FrameLimits limits, uint64_t id, Events events);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  absl::Status TakeFrame();
  // Starts a write unless one runs.
  void WriteNext();

  const uint64_t id_;
  const Events events_;
  const std::unique_ptr<v1::ActorTransport::Stub> stub_;
  grpc::ClientContext context_;
  std::shared_ptr<ClientStream> self_;  // Until OnDone.
  std::atomic<bool> greeted_{false};
  std::atomic<bool> given_up_{false};

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

}  // namespace troupe
