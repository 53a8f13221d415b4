// SPDX-License-Identifier: Apache-2.0
// ClientStream: the dialing side of a channel to one other process. Rings where they can be had, else a gRPC stream;
// what is sent while it is dialed waits and goes first.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/payload_port.h"
#include "runtime/transport/ring_hub.h"

namespace troupe {

struct ClientStreamOptions {
  uint64_t id = 0;  // Later ones have higher ones.
  std::string endpoint;
  std::string process;  // Of the other side, for people.
  FrameLimits limits;
  TransferLimits transfers;
  bool patient = false;  // It waits for a process that cannot be reached now.
  // Null: no rings.
  std::shared_ptr<RingHub> rings;
  std::string ring_socket;
  std::string why_no_rings;  // When `rings` is null.
  // Opens the gRPC stream. May keep the sink.
  std::function<std::shared_ptr<FrameChannel>(bool patient, std::shared_ptr<EnvelopeSink>)> dial_grpc;
};

class ClientStream final : public EnvelopeSink, public std::enable_shared_from_this<ClientStream> {
 public:
  struct Events {
    // One at a time.
    std::function<void(Envelope&&)> reply;
    std::function<void(Envelope&&)> item;
    std::function<absl::Status(const std::string& probe)> confirm;
    // The connection broke and is dialed again.
    std::function<void(const absl::Status& why)> broken;
    // Once, as the last. `greeted`: the other side had answered, so what was sent may have run.
    std::function<void(bool greeted, const absl::Status& status)> ended;
    // Rings were wanted and could not be had.
    std::function<void(const std::string& why)> fell_back;
  };

  // Dials. The stream keeps itself until it has ended.
  static std::shared_ptr<ClientStream> Open(ClientStreamOptions options, Events events);

  uint64_t id() const { return options_.id; }
  const std::string& endpoint() const { return options_.endpoint; }
  const std::string& process() const { return options_.process; }

  // Any thread. RESOURCE_EXHAUSTED: the queue is full. UNAVAILABLE: the stream has ended.
  absl::Status Send(Envelope&& envelope) { return SendOr(std::move(envelope), false); }
  // Never refused: for grants and cancels, whose number open calls bound. Nothing happens after the end.
  void SendAlways(Envelope&& envelope) { static_cast<void>(SendOr(std::move(envelope), true)); }

  // That call is not wanted any more: its stream ends there, it is not begun, what is left of its arguments is not
  // sent.
  void CancelCall(Envelope&& cancel);

  // Takes what comes on this thread until `future` is set or the deadline, where the channel can do that. `alone`: no
  // other call of this process is open.
  void WaitReading(internal::FutureBase& future, bool alone, Monotonic deadline) {
    FrameChannel* channel = connected_.load(std::memory_order_acquire);
    if (channel != nullptr) channel->WaitReading(future, alone, deadline);
  }

  // Ends it, unless it was connected after that time.
  void GiveUp(Monotonic since);
  bool given_up() const { return given_up_.load(); }
  // Ends it soon; `ended` follows.
  void Cancel();

  // "shared-memory rings", "gRPC stream: WHY", and what is with it, for people.
  std::string Describe() const;

  // EnvelopeSink.
  void Greeted() override { greeted_ = true; }
  void Broken(const absl::Status& why) override;
  void Resumed() override { broken_ = false; }
  absl::Status Take(Envelope&& envelope) override;
  void Ended(const absl::Status& why) override;

 private:
  ClientStream(ClientStreamOptions options, Events events)
      : options_(std::move(options)),
        events_(std::move(events)),
        why_grpc_(options_.why_no_rings),
        payloads_(options_.transfers) {}
  void DialRings();
  void DialGrpc(const std::string& why);
  // What waited goes first.
  void Connected(std::shared_ptr<FrameChannel> channel);
  absl::Status SendOr(Envelope&& envelope, bool always);
  // Of large payloads, and of what may have to wait behind one.
  absl::Status SendThrough(FrameChannel& channel, Envelope&& envelope, bool always);
  absl::Status TakeTransfer(Envelope&& envelope);
  // Of the thread that brings envelopes.
  FrameChannel& channel();

  const ClientStreamOptions options_;
  const Events events_;
  std::atomic<bool> greeted_{false};
  std::atomic<bool> given_up_{false};
  std::atomic<bool> broken_{false};
  std::atomic<FrameChannel*> connected_{nullptr};  // channel_, once it is there.

  mutable Mutex mutex_;
  std::shared_ptr<FrameChannel> channel_ ABSL_GUARDED_BY(mutex_);
  bool on_rings_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_grpc_ ABSL_GUARDED_BY(mutex_);
  std::deque<Envelope> waiting_ ABSL_GUARDED_BY(mutex_);  // Until it is connected.
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  PayloadPort payloads_;  // Its mutex is taken after mutex_.
};

}  // namespace troupe
