// SPDX-License-Identifier: Apache-2.0
// Transport's streams: how they are dialed, and what becomes of their calls when they end.
#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/channel.h"
#include "runtime/transport/call_envelope.h"
#include "runtime/transport/client_stream.h"
#include "runtime/transport/grpc_channel.h"
#include "runtime/transport/ring_handshake.h"
#include "runtime/transport/ring_hub.h"
#include "runtime/transport/server_session.h"
#include "runtime/transport/transport.h"

namespace troupe {
namespace {

// What a stream may end with when its process may be reached again.
bool MayComeBack(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsInternal(status) ||
         absl::IsUnknown(status);
}

absl::StatusOr<std::string> ResultOf(Envelope&& reply) {
  if (!reply.status.ok()) return std::move(reply.status);
  return std::move(reply.bytes);
}

}  // namespace

absl::Status Transport::ServeRings(const std::string& endpoint) {
  std::string path = RingSocketPath(endpoint);
  if (rings_ == nullptr || path.empty()) return absl::OkStatus();
  return rings_->Serve(path, [this](std::shared_ptr<FrameChannel> channel) -> std::shared_ptr<EnvelopeSink> {
    return receiver_->Accept(std::move(channel));
  });
}

std::shared_ptr<IdleWork> Transport::idle_work() const { return rings_; }

std::vector<TransportPeer> Transport::Peers() const {
  std::vector<TransportPeer> peers;
  MutexLock lock(mutex_);
  for (const auto& [endpoint, stream] : streams_) peers.push_back({endpoint, stream->Describe()});
  std::sort(peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.endpoint < b.endpoint; });
  return peers;
}

uint64_t Transport::refused_frames() const { return rings_ == nullptr ? 0 : rings_->refused(); }

std::shared_ptr<ClientStream> Transport::StreamTo(const std::string& endpoint, bool patient) {
  std::shared_ptr<ClientStream>& stream = streams_[endpoint];
  if (stream != nullptr) return stream;
  stream = OpenStreamTo(endpoint, next_stream_++, patient);
  return stream;
}

std::shared_ptr<ClientStream> Transport::OpenStreamTo(const std::string& endpoint, uint64_t id, bool patient) {
  std::weak_ptr<Transport> weak = weak_from_this();
  ClientStream::Events events;
  events.reply = [weak](Envelope&& reply) {
    uint64_t call_id = reply.call_id;
    if (auto self = weak.lock()) self->Complete(call_id, ResultOf(std::move(reply)));
  };
  events.item = [weak](Envelope&& item) {
    if (auto self = weak.lock()) self->TakeItem(std::move(item));
  };
  events.ended = [weak, id, endpoint](bool greeted, const absl::Status& status) {
    if (auto self = weak.lock()) self->StreamEnded(id, endpoint, greeted, status);
  };
  events.fell_back = [log = options_.log, endpoint](const std::string& why) {
    if (log) log("no shared-memory rings to " + endpoint + ", so gRPC: " + why);
  };
  ClientStreamOptions options;
  options.id = id;
  options.limits = options_.frames;
  options.patient = patient;
  options.ring_socket = RingSocketPath(endpoint);
  if (!options.ring_socket.empty()) options.rings = rings_;
  options.why_no_rings = options.ring_socket.empty() ? "it is of another node" : "rings are switched off here";
  options.dial_grpc = [endpoint, security = options_.security, name = options_.process_name, limits = options_.frames](
                          bool waits, std::shared_ptr<EnvelopeSink> sink) {
    return GrpcClientChannel::Open(MakeChannel(endpoint, security), name, limits, waits, std::move(sink));
  };
  return ClientStream::Open(std::move(options), std::move(events));
}

void Transport::SendAgain(std::vector<OpenCall>& calls, const std::string& endpoint) {
  Monotonic now = MonotonicNow();
  std::shared_ptr<ClientStream> stream;
  std::vector<OpenCall> left;
  for (OpenCall& call : calls) {
    if (call.retries_left == 0 || call.deadline <= now) {
      left.push_back(std::move(call));
      continue;
    }
    if (stream == nullptr) {
      stream = StreamTo(endpoint, true);
      redials_.emplace_back(now + kRedialTimeout, stream);
      timer_changed_.NotifyAll();
    }
    --call.retries_left;
    call.stream = stream->id();
    Envelope envelope = CallEnvelope(call.id, call.route, call.arguments, call.deadline - now);
    SetRepeats(caller_id_, call.id, envelope);
    calls_.PutBack(std::move(call));
    stream->SendAlways(std::move(envelope));
  }
  calls = std::move(left);
}

// Streams that have waited too long for their process; the end of each then ends its calls.
void Transport::EndRedials(Monotonic now) {
  std::vector<std::shared_ptr<ClientStream>> late;
  {
    MutexLock lock(mutex_);
    while (!redials_.empty() && redials_.front().first <= now) {
      late.push_back(std::move(redials_.front().second));
      redials_.pop_front();
    }
  }
  for (const auto& stream : late) stream->GiveUp();
}

void Transport::StreamEnded(uint64_t stream, const std::string& endpoint, bool greeted, const absl::Status& status) {
  std::vector<OpenCall> calls;
  std::shared_ptr<ClientStream> ended;  // Destroyed outside the lock.
  {
    MutexLock lock(mutex_);
    auto found = streams_.find(endpoint);
    if (found != streams_.end() && found->second->id() == stream) {
      ended = std::move(found->second);
      streams_.erase(found);
    }
    calls = calls_.TakeStream(stream);
    bool again = !stopping_ && MayComeBack(status) && (ended == nullptr || !ended->given_up());
    if (again) SendAgain(calls, endpoint);
  }
  for (OpenCall& call : calls) {
    bool may_have_run = greeted || call.acknowledges;  // Perhaps before it was sent again.
    std::string text = may_have_run ? "the connection to " + call.target().ToString() + " (" + endpoint +
                                          ") broke: " + StatusText(status) + "; the call may have run"
                                    : "cannot reach " + call.target().ToString() + " at " + endpoint + ": " +
                                          StatusText(status) + "; the call did not run";
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, text));
  }
}

}  // namespace troupe
