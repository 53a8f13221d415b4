// SPDX-License-Identifier: Apache-2.0
// Transport's streams: how they are dialed, and what becomes of their calls when they end.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/hash/hash.h"
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
#include "runtime/transport/transport_service.h"

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
  return rings_->Serve(
      path, [this](std::shared_ptr<FrameChannel> channel, const std::string& process) -> std::shared_ptr<EnvelopeSink> {
        return receiver_->Accept(std::move(channel), {process, "", false, "shared-memory rings"});
      });
}

std::shared_ptr<IdleWork> Transport::idle_work() const { return rings_; }

std::vector<Connection> Transport::Connections() const {
  std::vector<Connection> connections = receiver_->Connections();
  {
    MutexLock lock(mutex_);
    for (const auto& [endpoint, stream] : streams_) {
      connections.push_back({stream->process(), endpoint, true, stream->Describe()});
    }
  }
  std::sort(connections.begin(), connections.end(), [](const Connection& a, const Connection& b) {
    return std::tie(a.process, a.endpoint) < std::tie(b.process, b.endpoint);
  });
  return connections;
}

void Transport::List(v1::ListConnectionsResponse& response) const {
  for (Connection& connection : Connections()) {
    v1::Connection& to = *response.add_connections();
    to.set_process(std::move(connection.process));
    to.set_endpoint(std::move(connection.endpoint));
    to.set_dialed(connection.dialed);
    to.set_how(std::move(connection.how));
  }
  response.set_refused_frames(counters_->refused_frames);
  response.set_refused_sessions(counters_->refused_sessions);
  response.set_duplicate_frames(counters_->duplicate_frames);
  response.set_broken(counters_->broken);
  response.set_resumed(counters_->resumed);
}

std::shared_ptr<ClientStream> Transport::StreamTo(const ActorAddress& target, bool patient) {
  std::shared_ptr<ClientStream>& stream = streams_[target.endpoint];
  if (stream != nullptr) return stream;
  stream = OpenStreamTo(target, next_stream_++, patient);
  return stream;
}

std::shared_ptr<ClientStream> Transport::OpenStreamTo(const ActorAddress& target, uint64_t id, bool patient) {
  const std::string& endpoint = target.endpoint;
  std::weak_ptr<Transport> weak = weak_from_this();
  ClientStream::Events events;
  events.reply = [weak](Envelope&& reply) {
    uint64_t call_id = reply.call_id;
    if (auto self = weak.lock()) self->Complete(call_id, ResultOf(std::move(reply)));
  };
  events.item = [weak](Envelope&& item) {
    if (auto self = weak.lock()) self->TakeItem(std::move(item));
  };
  events.confirm = [weak](const std::string& probe) {
    auto self = weak.lock();
    return self == nullptr ? absl::OkStatus() : self->TakeConfirm(probe);
  };
  events.broken = [weak, id, endpoint](const absl::Status& why) {
    if (auto self = weak.lock()) self->StreamBroken(id, endpoint, why);
  };
  events.ended = [weak, id, endpoint](bool greeted, const absl::Status& status) {
    if (auto self = weak.lock()) self->StreamEnded(id, endpoint, greeted, status);
  };
  events.fell_back = [log = options_.log, endpoint](const std::string& why) {
    if (log) log("no shared-memory rings to " + endpoint + ", so gRPC: " + why);
  };
  ClientStreamOptions options;
  options.id = id;
  options.endpoint = endpoint;
  options.process = target.life.ToString();
  options.limits = options_.frames;
  options.transfers = Transfers();
  options.patient = patient;
  options.ring_socket = RingSocketPath(endpoint);
  if (!options.ring_socket.empty()) options.rings = rings_;
  options.why_no_rings = options.ring_socket.empty() ? "it is of another node" : "rings are switched off here";
  options.dial_grpc = [endpoint, security = options_.security, name = options_.process_name, limits = options_.frames,
                       counters = counters_](bool waits, std::shared_ptr<EnvelopeSink> sink) {
    return GrpcClientChannel::Open(MakeChannel(endpoint, security), {name, limits, waits, counters}, std::move(sink));
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
      stream = StreamTo({call.target(), endpoint}, true);
      redials_.emplace_back(now + options_.session_timeout, stream);
      timer_changed_.NotifyAll();
    }
    --call.retries_left;
    call.stream = stream->id();
    const uint64_t id = call.id;
    Envelope envelope = CallEnvelope(id, call.route, call.arguments, call.deadline - now);
    calls_.PutBack(std::move(call));
    envelope.repeats = true;
    envelope.repeat = KeyOf(id, *stream);  // Those that are still to be put back have higher numbers.
    stream->SendAlways(std::move(envelope));
  }
  calls = std::move(left);
}

RepeatKey Transport::KeyOf(uint64_t call, const ClientStream& stream) const {
  return {absl::HashOf(caller_id_, stream.endpoint()), call, stream.id(), calls_.settled()};
}

void Transport::Acknowledge(const OpenCall& call) {
  if (!call.acknowledges) return;
  Envelope envelope;
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(mutex_);
    stream = OpenStream(call.stream);
    if (stream == nullptr) return;  // What is sent on a later one says that it is settled.
    envelope.repeat = KeyOf(call.id, *stream);
  }
  envelope.kind = Envelope::Kind::kAck;
  stream->SendAlways(std::move(envelope));
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
  for (const auto& stream : late) stream->GiveUp(now - options_.session_timeout / 2);
}

void Transport::EndDetached(Monotonic now) {
  {
    MutexLock lock(mutex_);
    if (now < detached_at_) return;
    detached_at_ = Monotonic::Infinite();
  }
  Monotonic next = service_->EndDetached(now);
  MutexLock lock(mutex_);
  detached_at_ = std::min(detached_at_, next);
}

void Transport::StreamBroken(uint64_t stream, const std::string& endpoint, const absl::Status& why) {
  if (options_.log) options_.log("the connection to " + endpoint + " broke and is dialed again: " + StatusText(why));
  MutexLock lock(mutex_);
  std::shared_ptr<ClientStream> broken = OpenStream(stream);
  if (broken == nullptr || stopping_) return;
  redials_.emplace_back(MonotonicNow() + options_.session_timeout, std::move(broken));
  timer_changed_.NotifyAll();
}

void Transport::StreamEnded(uint64_t stream, const std::string& endpoint, bool greeted, const absl::Status& status) {
  std::vector<OpenCall> calls;
  std::shared_ptr<ClientStream> ended;  // Destroyed outside the lock.
  {
    MutexLock lock(mutex_);
    auto found = streams_.find(endpoint);
    if (found != streams_.end() && found->second->id() == stream) {
      known_ways_ = {};
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
