// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/frame_queue.h"

#include <string>
#include <utility>

namespace troupe {
namespace {

absl::Status CheckHello(const v1::TransportHello& hello) {
  if (hello.process().empty()) return absl::InvalidArgumentError("a hello without the name of its process");
  if (hello.protocol_version() == kTransportProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(hello.process() + " speaks version " + std::to_string(hello.protocol_version()) +
                                       " of the actor transport, this process version " +
                                       std::to_string(kTransportProtocolVersion) + ": install the same Troupe on both");
}

}  // namespace

void FrameQueue::PushHello(const std::string& process) {
  v1::Envelope envelope;
  envelope.mutable_hello()->set_process(process);
  envelope.mutable_hello()->set_protocol_version(kTransportProtocolVersion);
  PushAlways(std::move(envelope));
}

bool FrameQueue::Push(v1::Envelope&& envelope) {
  size_t bytes = envelope.ByteSizeLong();
  bool full = envelopes_.size() >= limits_.queue_envelopes_max || bytes_ + bytes > limits_.queue_bytes_max;
  if (full && !envelopes_.empty()) return false;
  PushAlways(std::move(envelope));
  return true;
}

void FrameQueue::PushAlways(v1::Envelope&& envelope) {
  size_t bytes = envelope.ByteSizeLong();
  envelopes_.emplace_back(std::move(envelope), bytes);
  bytes_ += bytes;
}

std::optional<v1::Frame> FrameQueue::NextFrame() {
  if (envelopes_.empty()) return std::nullopt;
  v1::Frame frame;
  frame.set_sequence(next_sequence_++);
  size_t frame_bytes = 0;
  while (!envelopes_.empty() && static_cast<size_t>(frame.envelopes_size()) < limits_.frame_envelopes_max) {
    size_t bytes = envelopes_.front().second;
    if (frame_bytes > 0 && frame_bytes + bytes > limits_.frame_bytes_max) break;
    *frame.add_envelopes() = std::move(envelopes_.front().first);
    envelopes_.pop_front();
    frame_bytes += bytes;
    bytes_ -= bytes;
  }
  return frame;
}

absl::Status FrameChecker::Check(const v1::Frame& frame) {
  if (frame.sequence() != next_sequence_) {
    return absl::InvalidArgumentError("frame " + std::to_string(frame.sequence()) + " came where " +
                                      std::to_string(next_sequence_) + " was due");
  }
  ++next_sequence_;
  if (frame.envelopes().empty()) return absl::InvalidArgumentError("a frame without envelopes");
  for (const v1::Envelope& envelope : frame.envelopes()) {
    if (envelope.envelope_case() == v1::Envelope::ENVELOPE_NOT_SET) {
      return absl::InvalidArgumentError("an empty envelope, or one of a kind that this version does not know");
    }
    if (envelope.has_hello() == greeted()) {
      return absl::InvalidArgumentError(greeted() ? "a second hello" : "the stream does not begin with a hello");
    }
    if (!envelope.has_hello()) continue;
    if (absl::Status status = CheckHello(envelope.hello()); !status.ok()) return status;
    peer_ = envelope.hello().process();
  }
  return absl::OkStatus();
}

}  // namespace troupe
