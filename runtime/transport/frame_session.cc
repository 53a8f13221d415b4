// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/frame_session.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/status.h"

namespace troupe {
namespace {

// About what a record has beside them.
constexpr size_t kRecordBytes = 64;

}  // namespace

v1::Frame FrameSession::Hello(const std::string& process, uint64_t session, uint64_t epoch) const {
  v1::Frame frame;
  v1::TransportHello& hello = *frame.mutable_hello();
  hello.set_process(process);
  hello.set_protocol_version(kTransportProtocolVersion);
  hello.set_session(session);
  hello.set_epoch(epoch);
  hello.set_received(received_);
  return frame;
}

absl::StatusOr<v1::TransportHello> FrameSession::HelloOf(const v1::Frame& frame) {
  if (!frame.has_hello() || !frame.records().empty()) {
    return absl::InvalidArgumentError("the stream does not begin with a hello");
  }
  const v1::TransportHello& hello = frame.hello();
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

bool FrameSession::Push(Envelope&& envelope) {
  bool full = waiting_envelopes_ >= limits_.queue_envelopes_max ||
              waiting_bytes_ + envelope.bytes.size() + kRecordBytes > limits_.queue_bytes_max;
  if (full && !waiting_.empty()) return false;
  PushAlways(std::move(envelope));
  return true;
}

void FrameSession::PushAlways(Envelope&& envelope) {
  size_t bytes = envelope.bytes.size();
  if (waiting_.empty() || waiting_.back().envelopes >= limits_.frame_envelopes_max || !waiting_.back().tail.empty() ||
      waiting_.back().bytes() + bytes + kRecordBytes > limits_.frame_bytes_max) {
    waiting_.emplace_back();
  }
  Waiting& frame = waiting_.back();
  size_t before = frame.bytes();
  bool is_tail = bytes >= kLargeBytes;
  writer_.Write(envelope, frame.records, is_tail ? RecordBytes::kBeside : RecordBytes::kWithin);
  if (is_tail) frame.tail = std::move(envelope.bytes);
  ++frame.envelopes;
  ++waiting_envelopes_;
  waiting_bytes_ += frame.bytes() - before;
}

FrameSession::Kept FrameSession::Pack() {
  Waiting waiting = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_envelopes_ -= waiting.envelopes;
  waiting_bytes_ -= waiting.bytes();
  Kept kept{std::make_shared<v1::Frame>(), waiting.bytes()};
  kept.frame->set_sequence(++last_sequence_);
  kept.frame->set_records(std::move(waiting.records));
  kept.frame->set_tail(std::move(waiting.tail));
  return kept;
}

std::shared_ptr<const v1::Frame> FrameSession::Next() {
  std::shared_ptr<v1::Frame> frame;
  bool may_keep = kept_bytes_ < limits_.kept_bytes_max && kept_.size() < limits_.kept_frames_max;
  if (written_ == kept_.size() && !waiting_.empty() && may_keep) {
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
  if (frame.has_hello()) return absl::InvalidArgumentError("a second hello");
  const bool is_empty = frame.records().empty();
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
  ++received_;
  unacknowledged_bytes_ += frame.ByteSizeLong();
  return true;
}

absl::Status FrameSession::TakeEnvelopes(v1::Frame& frame, EnvelopeReader& reader,
                                         const std::function<absl::Status(Envelope&&)>& take) {
  for (std::string_view left = frame.records(); !left.empty();) {
    uint32_t length = 0;
    if (left.size() > sizeof(length)) std::memcpy(&length, left.data(), sizeof(length));
    left.remove_prefix(std::min(left.size(), sizeof(length)));
    if (length == 0 || length > left.size()) return absl::InvalidArgumentError("a frame whose records are cut");
    std::string_view record = left.substr(0, length);
    left.remove_prefix(length);
    std::string* beside = left.empty() && !frame.tail().empty() ? frame.mutable_tail() : nullptr;
    Envelope envelope;
    TROUPE_RETURN_IF_ERROR(reader.Read(record, envelope, beside));
    if (envelope.kind != Envelope::Kind::kNone) TROUPE_RETURN_IF_ERROR(take(std::move(envelope)));
  }
  return absl::OkStatus();
}

}  // namespace troupe
