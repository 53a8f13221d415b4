// SPDX-License-Identifier: Apache-2.0
// FrameSession: one side of a session over gRPC streams. Packs envelopes that wait into numbered frames, keeps what the
// other side has not acknowledged and writes it again on the next stream, and checks what comes: each envelope arrives
// once and in order, however often the stream breaks. Pure: no lock, no clock, no IO.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/transport/envelope.h"
#include "runtime/transport/envelope_codec.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

inline constexpr uint32_t kTransportProtocolVersion = 5;

struct FrameLimits {
  size_t queue_envelopes_max = 65'536;
  size_t queue_bytes_max = 64 << 20;
  // A frame is closed when it has that many: large enough that its cost is shared, small enough that the first envelope
  // does not wait long for the last.
  size_t frame_envelopes_max = 1024;
  size_t frame_bytes_max = 256 << 10;
  // Of frames that are kept until the other side has them; beyond it nothing new is written. More than is on its way on
  // a fast and long line.
  size_t kept_bytes_max = 16 << 20;
  size_t kept_frames_max = 4096;
  // When so much came and nothing goes back that could say so, an acknowledgement goes by itself. Far less than what is
  // kept, so that nobody waits for it.
  size_t acknowledge_bytes = 1 << 20;
  size_t acknowledge_frames = 64;
  // Of frames that came and wait until fewer replies do. Those of an honest other side, which keeps them meanwhile, are
  // a quarter of it.
  size_t held_bytes_max = 64 << 20;
};

class FrameSession {
 public:
  explicit FrameSession(FrameLimits limits = {}) : limits_(limits) {}

  // The first frame of a stream, to be written before those of Next.
  v1::Frame Hello(const std::string& process, uint64_t session, uint64_t epoch) const;
  // The hello of a frame that begins a stream. INVALID_ARGUMENT: it is none. FAILED_PRECONDITION: of another version.
  static absl::StatusOr<v1::TransportHello> HelloOf(const v1::Frame& frame);

  // False: full; `envelope` is untouched. Any size of envelope fits into an empty queue.
  bool Push(Envelope&& envelope);
  // Never refused: for replies, whose number the receiver of the calls bounds by taking no more (see `over_limit`).
  void PushAlways(Envelope&& envelope);
  bool over_limit() const {
    return waiting_bytes_ > limits_.queue_bytes_max || waiting_envelopes_ > limits_.queue_envelopes_max;
  }

  // A new stream: what the other side has not got goes first. DATA_LOSS: it names a frame that it cannot have, or
  // misses one that it had; the session has ended then.
  absl::Status Begin(uint64_t other_received);
  // What is to be written next; null when nothing is now.
  std::shared_ptr<const v1::Frame> Next();
  // What a frame that came says of this side's, before it is taken. DATA_LOSS: it cannot be; the session has ended
  // then.
  absl::Status TakeAcknowledgement(const v1::Frame& frame) { return Acknowledge(frame.acknowledges()); }
  // A frame that came, behind the hello. False: it holds nothing, or came before; it is dropped. INVALID_ARGUMENT: it
  // cannot be (out of sequence, empty, a second hello); the session has ended then.
  absl::StatusOr<bool> Take(const v1::Frame& frame);

  // Gives the envelopes of a frame that Take accepted, which it uses up, to `take`; ends with the first that is not OK.
  // `reader`: of all frames of a session, in their order. INVALID_ARGUMENT: the records cannot be.
  static absl::Status TakeEnvelopes(v1::Frame& frame, EnvelopeReader& reader,
                                    const std::function<absl::Status(Envelope&&)>& take);

  // All of the other's frames up to this one have come.
  uint64_t received() const { return received_; }
  // Frames that came before and were dropped.
  uint64_t duplicates() const { return duplicates_; }
  size_t kept_bytes() const { return kept_bytes_; }
  size_t kept_frames() const { return kept_.size(); }

 private:
  // A frame that still waits.
  struct Waiting {
    std::string records;
    std::string tail;
    size_t envelopes = 0;
    size_t bytes() const { return records.size() + tail.size(); }
  };
  struct Kept {
    std::shared_ptr<v1::Frame> frame;
    size_t bytes = 0;
  };
  absl::Status Acknowledge(uint64_t sequence);
  Kept Pack();
  bool OwesAcknowledgement() const;

  const FrameLimits limits_;
  EnvelopeWriter writer_;
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  size_t waiting_envelopes_ = 0;
  uint64_t last_sequence_ = 0;
  std::deque<Kept> kept_;
  size_t kept_bytes_ = 0;
  size_t written_ = 0;  // So many of kept_ were written on this stream.

  uint64_t received_ = 0;
  uint64_t acknowledged_ = 0;  // What the other side was told of received_.
  size_t unacknowledged_bytes_ = 0;
  uint64_t duplicates_ = 0;
};

}  // namespace troupe
