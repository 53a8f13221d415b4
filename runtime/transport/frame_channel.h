// SPDX-License-Identifier: Apache-2.0
// FrameChannel: carries envelopes to one other process, in order, and brings the other's: a session over gRPC streams
// (grpc_channel.h) or a pair of rings (ring_hub.h). It outlives connections that break. EnvelopeSink: the session of
// calls above it.
#pragma once

#include "absl/status/status.h"
#include "runtime/actor/future_state.h"
#include "runtime/transport/envelope.h"

namespace troupe {

class EnvelopeSink {
 public:
  virtual ~EnvelopeSink() = default;

  // The other process is there: what is sent from here on may arrive. Before the first Take.
  virtual void Greeted() {}
  // One at a time, in the other's order. Not OK: the channel ends with that.
  virtual absl::Status Take(Envelope&& envelope) = 0;
  // The connection broke, and the channel tries to go on on another one: Resumed or Ended follows. Of a dialed one.
  virtual void Broken(const absl::Status&) {}
  virtual void Resumed() {}
  // Once; little is taken after it.
  virtual void Ended(const absl::Status& why) = 0;
};

class FrameChannel {
 public:
  virtual ~FrameChannel() = default;

  // Any thread. RESOURCE_EXHAUSTED: too much waits already. UNAVAILABLE: it has ended.
  virtual absl::Status Send(Envelope&& envelope) = 0;
  // Never refused: for what is bounded otherwise. Nothing happens after the end.
  virtual void SendAlways(Envelope&& envelope) = 0;
  // Any thread: ends it; the other process is told why, if it can be.
  virtual void End(const absl::Status& why) = 0;
  // Any thread: ends it if it has not been connected since that time.
  virtual void GiveUp(Monotonic) {}

  // Takes what comes on this thread until `future` is set or the deadline; returns at once where that cannot be done.
  // `alone`: no other call of this process is open.
  virtual void WaitReading(internal::FutureBase&, bool /*alone*/, Monotonic) {}
};

}  // namespace troupe
