// SPDX-License-Identifier: Apache-2.0
// PayloadPort: one end of a channel, where large payloads are cut and put together (payload_transfer.h). What is small
// goes to the channel itself as long as Passes says so.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/transport/frame_channel.h"
#include "runtime/transport/payload_transfer.h"

namespace troupe {

class PayloadPort {
 public:
  explicit PayloadPort(const TransferLimits& limits)
      : sender(limits), whole_bytes_max_(limits.whole_bytes_max), receiver_(limits) {}

  // Any thread. Whether a payload of so many bytes need not go through the sender: it is small, and waits for none.
  bool Passes(size_t bytes) const { return bytes <= whole_bytes_max_ && !busy(); }
  // Whether there is something in the sender.
  bool busy() const { return busy_.load(std::memory_order_acquire); }

  Mutex mutex;
  PayloadSender sender ABSL_GUARDED_BY(mutex);
  // What has come out of the sender.
  void SendOut(FrameChannel& channel, PayloadSender::Out&& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // On the thread that brings envelopes: a chunk or a credit; and the payload of an envelope that names a transfer.
  // Errors end the channel. `refused`: by the other side, with its reason.
  absl::Status Take(FrameChannel& channel, Envelope&& envelope, std::vector<std::pair<Envelope, absl::Status>>& refused)
      ABSL_LOCKS_EXCLUDED(mutex);
  absl::Status Finish(FrameChannel& channel, Envelope& envelope);

 private:
  const size_t whole_bytes_max_;
  std::atomic<bool> busy_{false};
  PayloadReceiver receiver_;  // Of the thread that brings envelopes.
};

}  // namespace troupe
