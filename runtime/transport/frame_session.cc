// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/frame_session.h"

#include <utility>

#include "runtime/base/status.h"

namespace troupe {

v1::Frame FrameSession::Hello(const std::string& process, uint64_t session, uint64_t epoch) const {
  v1::Frame frame;
  v1::TransportHello& hello = *frame.add_envelopes()->mutable_hello();
  hello.set_process(process);
  hello.set_protocol_version(kTransportProtocolVersion);
  hello.set_session(session);
  hello.set_epoch(epoch);
  hello.set_received(received_);
  return frame;
}

absl::StatusOr<v1::TransportHello> FrameSession::HelloOf(const v1::Frame& frame) {
  if (frame.envelopes_size() != 1 || !frame.envelopes(0).has_hello()) {
    return absl::InvalidArgumentError("the stream does not begin with a hello");
  }
  const v1::TransportHello& hello = frame.envelopes(0).hello();
  if (hello.process().empty()) return absl::InvalidArgumentError("a hello without the name of its process");
  if (hello.protocol_version() != kTransportProtocolVersion) {
    return absl::FailedPreconditionError(
        hello.process() + " speaks version " + std::to_string(hello.protocol_version()) +
        " of the actor transport, this process version " + std::to_string(kTransportProtocolVersion) +
        ": install the same Troupe on both");
  }
  if (frame.sequence() != 0 || hello.session() == 0 || hello.epoch() == 0) {
    return absl::InvalidArgumentError("a hello that names no stream of a session");
  }
  return hello;
}

bool FrameSession::Push(v1::Envelope&& envelope) {
  size_t bytes = envelope.ByteSizeLong();
  bool full = envelopes_.size() >= limits_.queue_envelopes_max || bytes_ + bytes > limits_.queue_bytes_max;
  if (full && !envelopes_.empty()) return false;
  PushAlways(std::move(envelope));
  return true;
}

void FrameSession::PushAlways(v1::Envelope&& envelope) {
  size_t bytes = envelope.ByteSizeLong();
  envelopes_.emplace_back(std::move(envelope), bytes);
  bytes_ += bytes;
}

FrameSession::Kept FrameSession::Pack() {
  Kept kept;
  kept.frame = std::make_shared<v1::Frame>();
  kept.frame->set_sequence(++last_sequence_);
  while (!envelopes_.empty() && static_cast<size_t>(kept.frame->envelopes_size()) < limits_.frame_envelopes_max) {
    size_t bytes = envelopes_.front().second;
    if (kept.bytes > 0 && kept.bytes + bytes > limits_.frame_bytes_max) break;
    *kept.frame->add_envelopes() = std::move(envelopes_.front().first);
    envelopes_.pop_front();
    kept.bytes += bytes;
    bytes_ -= bytes;
  }
  return kept;
}

std::shared_ptr<const v1::Frame> FrameSession::Next() {
  std::shared_ptr<v1::Frame> frame;
  // Over the limit the server reads no acknowledgements until more is written: the stream's own flow control is the
  // bound.
  bool may_keep = over_limit() || (kept_bytes_ < limits_.kept_bytes_max && kept_.size() < limits_.kept_frames_max);
  if (written_ == kept_.size() && !envelopes_.empty() && may_keep) {
    kept_.push_back(Pack());
    kept_bytes_ += kept_.back().bytes;
    frame = kept_.back().frame;
    ++written_;
  } else if (written_ < kept_.size()) {
    return kept_[written_++].frame;  // As it was: a write of it on an older stream may not have ended.
  } else if (OwesAcknowledgement()) {
    frame = std::make_shared<v1::Frame>();
  } else {
    return nullptr;
  }
  frame->set_acknowledges(received_);
  acknowledged_ = received_;
  unacknowledged_bytes_ = 0;
  return frame;
}

bool FrameSession::OwesAcknowledgement() const {
  return received_ - acknowledged_ >= limits_.acknowledge_frames || unacknowledged_bytes_ >= limits_.acknowledge_bytes;
}

absl::Status FrameSession::Begin(uint64_t other_received) {
  TROUPE_RETURN_IF_ERROR(Acknowledge(other_received));
  if (other_received != last_sequence_ - kept_.size()) {
    return absl::DataLossError("the other process has the session's frames up to " + std::to_string(other_received) +
                               ", and has acknowledged more before");
  }
  written_ = 0;
  return absl::OkStatus();
}

absl::Status FrameSession::Acknowledge(uint64_t sequence) {
  if (sequence > last_sequence_) {
    return absl::DataLossError("the other process acknowledges frame " + std::to_string(sequence) + "; the last was " +
                               std::to_string(last_sequence_));
  }
  while (!kept_.empty() && kept_.front().frame->sequence() <= sequence) {
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
    if (written_ > 0) --written_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FrameSession::Take(const v1::Frame& frame) {
  TROUPE_RETURN_IF_ERROR(Acknowledge(frame.acknowledges()));
  const bool is_empty = frame.envelopes().empty();
  if (frame.sequence() == 0 && is_empty) return false;
  if (frame.sequence() > 0 && frame.sequence() <= received_) {
    ++duplicates_;
    return false;
  }
  if (frame.sequence() != received_ + 1) {
    return absl::InvalidArgumentError("frame " + std::to_string(frame.sequence()) + " came where " +
                                      std::to_string(received_ + 1) + " was due");
  }
  if (is_empty) return absl::InvalidArgumentError("a frame without envelopes");
  for (const v1::Envelope& envelope : frame.envelopes()) {
    if (envelope.envelope_case() == v1::Envelope::ENVELOPE_NOT_SET) {
      return absl::InvalidArgumentError("an empty envelope, or one of a kind that this version does not know");
    }
    if (envelope.has_hello()) return absl::InvalidArgumentError("a second hello");
  }
  ++received_;
  unacknowledged_bytes_ += frame.ByteSizeLong();
  return true;
}

}  // namespace troupe
