// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "runtime/transport/client_stream.h"
#include "runtime/transport/transport_service.h"

namespace troupe {
namespace {

absl::StatusOr<std::string> ResultOf(v1::ActorReply&& reply) {
  if (reply.status().code() == 0) return std::move(*reply.mutable_result());
  return WithCallError(FromErrorStatus(reply.status()), reply.error());
}

v1::Envelope CallEnvelope(uint64_t id, const ActorLife& target, std::string method, std::string arguments,
                          absl::Duration timeout) {
  v1::Envelope envelope;
  v1::ActorCall& call = *envelope.mutable_call();
  call.set_call_id(id);
  *call.mutable_target() = target.ToProto();
  call.set_method(std::move(method));
  call.set_arguments(std::move(arguments));
  call.set_deadline_ms(std::max<int64_t>(absl::ToInt64Milliseconds(timeout), 1));
  return envelope;
}

std::string DeathText(const ActorLife& life, const v1::ExitCause& cause) {
  return life.ToString() + " died: " + (cause.text().empty() ? "its process has ended" : cause.text());
}

}  // namespace

std::shared_ptr<Transport> Transport::Create(TransportOptions options, ActorHost& host) {
  TROUPE_CHECK(!options.process_name.empty(), "a process that calls actors has a name");
  std::shared_ptr<Transport> transport(new Transport(std::move(options), host));
  transport->timer_ = std::thread([raw = transport.get()] { raw->RunTimer(); });
  return transport;
}

Transport::Transport(TransportOptions options, ActorHost& host)
    : options_(std::move(options)),
      host_(host),
      service_(std::make_unique<TransportService>(
          TransportService::Options{options_.process_name, options_.payload_bytes_max, options_.frames}, host)),
      calls_(options_.calls) {}

Transport::~Transport() { Shutdown(); }

grpc::Service* Transport::service() { return service_.get(); }

absl::Status Transport::Refuse(const ActorAddress& target, size_t bytes) {
  if (stopping_) return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "this process is stopping");
  if (bytes > options_.payload_bytes_max) {
    return CallErrorStatus(v1::CallError::CALL_OVERLOADED, "the arguments have " + std::to_string(bytes) +
                                                               " bytes, more than the " +
                                                               std::to_string(options_.payload_bytes_max) + " allowed");
  }
  auto dead = dead_.find(target.life.path);
  if (dead == dead_.end() || target.life.incarnation > dead->second.incarnation) return absl::OkStatus();
  return DiedStatus(DeathText(target.life, dead->second.cause), dead->second.cause);
}

void Transport::Call(const ActorAddress& target, std::string method, std::string arguments, absl::Duration timeout,
                     ReplyCallback reply) {
  timeout = std::clamp(timeout, absl::ZeroDuration(), kCallTimeoutMax);
  OpenCall call;
  call.target = target.life;
  call.method = method;
  call.deadline = MonotonicNow() + timeout;
  call.bytes = arguments.size();
  call.reply = std::move(reply);
  bool here = target.endpoint.empty() || host_.Has(target.life);
  std::shared_ptr<ClientStream> stream;
  absl::StatusOr<uint64_t> id;
  {
    MutexLock lock(mutex_);
    absl::Status refused = Refuse(target, arguments.size());
    if (!refused.ok()) {
      id = refused;
    } else {
      if (!here) stream = StreamTo(target.endpoint);
      call.stream = here ? 0 : stream->id();
      bool soonest = call.deadline < calls_.NextDeadline();
      id = calls_.Add(std::move(call));
      if (!id.ok()) id = CallErrorStatus(v1::CallError::CALL_OVERLOADED, MessageOf(id.status()));
      if (soonest) timer_changed_.NotifyAll();
    }
  }
  if (!id.ok()) return call.reply(id.status());
  if (here) return DeliverHere(target.life, *id, std::move(method), std::move(arguments), MonotonicNow() + timeout);
  absl::Status sent = stream->Send(CallEnvelope(*id, target.life, std::move(method), std::move(arguments), timeout));
  if (sent.ok()) return;
  auto kind = sent.code() == absl::StatusCode::kResourceExhausted ? v1::CallError::CALL_OVERLOADED
                                                                  : v1::CallError::CALL_UNAVAILABLE;
  Complete(*id, CallErrorStatus(kind, target.life.ToString() + ": " + MessageOf(sent) + "; the call did not run"));
}

std::shared_ptr<ClientStream> Transport::StreamTo(const std::string& endpoint) {
  std::shared_ptr<ClientStream>& stream = streams_[endpoint];
  if (stream != nullptr) return stream;
  uint64_t id = next_stream_++;
  std::weak_ptr<Transport> weak = weak_from_this();
  ClientStream::Events events;
  events.reply = [weak](v1::ActorReply&& reply) {
    uint64_t call_id = reply.call_id();
    if (auto self = weak.lock()) self->Complete(call_id, ResultOf(std::move(reply)));
  };
  events.ended = [weak, id, endpoint](bool greeted, const absl::Status& status) {
    if (auto self = weak.lock()) self->StreamEnded(id, endpoint, greeted, status);
  };
  stream = ClientStream::Open(MakeChannel(endpoint, options_.security), options_.process_name, options_.frames, id,
                              std::move(events));
  return stream;
}

void Transport::DeliverHere(const ActorLife& target, uint64_t id, std::string method, std::string arguments,
                            Monotonic deadline) {
  IncomingCall call = {std::move(method), std::move(arguments), deadline,
                       [weak = weak_from_this(), id](absl::StatusOr<std::string> result) {
                         if (auto self = weak.lock()) self->Complete(id, std::move(result));
                       }};
  host_.Deliver(target, std::move(call));
}

void Transport::Complete(uint64_t id, absl::StatusOr<std::string> result) {
  std::optional<OpenCall> call;
  {
    MutexLock lock(mutex_);
    call = calls_.Take(id);
  }
  if (call.has_value()) call->reply(std::move(result));  // Else it was answered already: its deadline was over.
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
  }
  for (OpenCall& call : calls) {
    std::string text = greeted ? "the connection to " + call.target.ToString() + " (" + endpoint +
                                     ") broke: " + StatusText(status) + "; the call may have run"
                               : "cannot reach " + call.target.ToString() + " at " + endpoint + ": " +
                                     StatusText(status) + "; the call did not run";
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, text));
  }
}

void Transport::MarkDead(const ActorLife& life, const v1::ExitCause& cause) {
  std::vector<OpenCall> calls;
  {
    MutexLock lock(mutex_);
    Death& death = dead_[life.path];
    if (life.incarnation <= death.incarnation) return;
    death = {life.incarnation, cause};
    calls = calls_.TakeTarget(life);
  }
  for (OpenCall& call : calls) call.reply(DiedStatus(DeathText(call.target, cause) + "; the call may have run", cause));
}

void Transport::Shutdown() {
  std::vector<OpenCall> calls;
  std::vector<std::shared_ptr<ClientStream>> streams;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    calls = calls_.TakeAll();
    for (auto& [endpoint, stream] : streams_) streams.push_back(stream);
    timer_changed_.NotifyAll();
  }
  for (OpenCall& call : calls) {
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "this process stopped before the reply came"));
  }
  for (const auto& stream : streams) stream->Cancel();
  service_->Shutdown();
  if (timer_.joinable()) timer_.join();
}

size_t Transport::open_calls() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void Transport::RunTimer() {
  while (true) {
    std::vector<OpenCall> late;
    {
      MutexLock lock(mutex_);
      Monotonic next = calls_.NextDeadline();
      timer_changed_.WaitUntil(lock, next, [&] { return stopping_ || calls_.NextDeadline() < next; });
      if (stopping_) return;
      late = calls_.TakeExpired(MonotonicNow());
    }
    for (OpenCall& call : late) {
      call.reply(CallErrorStatus(v1::CallError::CALL_DEADLINE, call.method + " of " + call.target.ToString() +
                                                                   " did not answer in time; it may have run"));
    }
  }
}

}  // namespace troupe
