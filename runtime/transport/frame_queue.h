// SPDX-License-Identifier: Apache-2.0
// The frames of one stream. FrameQueue: envelopes that wait to be written, bounded, packed into numbered frames.
// FrameChecker: what may come in. Both pure and without locks.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

inline constexpr uint32_t kTransportProtocolVersion = 2;

struct FrameLimits {
  size_t queue_envelopes_max = 65'536;
  size_t queue_bytes_max = 64 << 20;
  // A frame is closed when it has that many: large enough that its cost is shared, small enough that the first envelope
  // does not wait long for the last.
  size_t frame_envelopes_max = 1024;
  size_t frame_bytes_max = 256 << 10;
};

class FrameQueue {
 public:
  explicit FrameQueue(FrameLimits limits = {}) : limits_(limits) {}

  // The first frame carries this hello.
  void PushHello(const std::string& process);
  // False: full; `envelope` is untouched. Any size of envelope fits into an empty queue.
  bool Push(v1::Envelope&& envelope);
  // Never refused: for replies, whose number the receiver of the calls bounds by reading no more (see `over_limit`).
  void PushAlways(v1::Envelope&& envelope);

  // Nothing when nothing waits. At least one envelope each.
  std::optional<v1::Frame> NextFrame();

  bool empty() const { return envelopes_.empty(); }
  bool over_limit() const {
    return bytes_ > limits_.queue_bytes_max || envelopes_.size() > limits_.queue_envelopes_max;
  }

 private:
  const FrameLimits limits_;
  std::deque<std::pair<v1::Envelope, size_t>> envelopes_;
  size_t bytes_ = 0;
  uint64_t next_sequence_ = 1;
};

class FrameChecker {
 public:
  // Every frame in the order of arrival. INVALID_ARGUMENT: out of sequence, empty, an empty envelope, no hello first or
  // one too many. FAILED_PRECONDITION: the peer speaks another version.
  absl::Status Check(const v1::Frame& frame);

  bool greeted() const { return !peer_.empty(); }
  const std::string& peer() const { return peer_; }

 private:
  uint64_t next_sequence_ = 1;
  std::string peer_;
};

}  // namespace troupe
