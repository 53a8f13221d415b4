// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/rpc/channel.h"
#include "runtime/transport/client_stream.h"
#include "runtime/transport/envelopes.h"
#include "runtime/transport/transport_service.h"

namespace troupe {
namespace {

// What a stream may end with when its process may be reached again.
bool MayComeBack(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsInternal(status) ||
         absl::IsUnknown(status);
}

absl::Status NotSent(const ActorLife& target, const absl::Status& sent) {
  auto kind = sent.code() == absl::StatusCode::kResourceExhausted ? v1::CallError::CALL_OVERLOADED
                                                                  : v1::CallError::CALL_UNAVAILABLE;
  return CallErrorStatus(kind, target.ToString() + ": " + MessageOf(sent) + "; the call did not run");
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
      caller_id_(RandomUint64()),
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
  bool restarted_here = target.endpoint.empty() && host_.Living(target.life.path) > target.life.incarnation;
  if (restarted_here) return absl::OkStatus();  // The host tells of the successor.
  const v1::ExitCause* cause = deaths_.CauseOf(target.life);
  return cause == nullptr ? absl::OkStatus() : DiedStatus(DeathText(target.life, *cause), *cause);
}

uint64_t Transport::Call(const ActorAddress& target, OutgoingCall outgoing) {
  absl::Duration timeout = std::clamp(outgoing.timeout, absl::ZeroDuration(), kCallTimeoutMax);
  bool here = IsHere(target);
  OpenCall call;
  call.target = target.life;
  call.method = outgoing.method;
  call.deadline = MonotonicNow() + timeout;
  call.bytes = outgoing.arguments.size();
  call.reply = std::move(outgoing.reply);
  bool streams = static_cast<bool>(outgoing.item);
  if (streams && here) call.sink = std::make_shared<StreamSink>(std::move(outgoing.item), outgoing.window);
  if (outgoing.retries > 0 && !here && !streams) {
    call.retries_left = outgoing.retries;
    call.acknowledges = true;
    call.arguments = outgoing.arguments;
  }
  bool may_repeat = call.acknowledges;
  if (streams && !here) call.item = std::make_shared<ItemCallback>(std::move(outgoing.item));
  IncomingCall incoming = {{}, {}, call.deadline, nullptr, call.sink, {}};
  std::shared_ptr<ClientStream> stream;
  absl::StatusOr<uint64_t> id;
  {
    MutexLock lock(mutex_);
    absl::Status refused = Refuse(target, outgoing.arguments.size());
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
  if (!id.ok()) {
    call.reply(id.status());
    return 0;
  }
  if (here) {
    incoming.method = std::move(outgoing.method);
    incoming.arguments = std::move(outgoing.arguments);
    incoming.key = {this, *id};
    incoming.reply = [weak = weak_from_this(), id = *id](absl::StatusOr<std::string> result) {
      if (auto self = weak.lock()) self->Complete(id, std::move(result));
    };
    host_.Deliver(target.life, std::move(incoming));
    return *id;
  }
  v1::Envelope envelope =
      CallEnvelope(*id, target.life, std::move(outgoing.method), std::move(outgoing.arguments), timeout);
  if (streams) *envelope.mutable_call()->mutable_window() = GrantOf(0, outgoing.window.items, outgoing.window.bytes);
  if (may_repeat) *envelope.mutable_call()->mutable_retry() = KeyOf(caller_id_, *id);
  absl::Status sent = stream->Send(std::move(envelope));
  // The stream's end, which is still to be told, sends what may be repeated again.
  bool sent_again = may_repeat && absl::IsUnavailable(sent);
  if (!sent.ok() && !sent_again) Complete(*id, NotSent(target.life, sent));
  return *id;
}

absl::Status Transport::Send(const ActorAddress& target, std::string method, std::string arguments) {
  bool here = IsHere(target);
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(mutex_);
    if (absl::Status refused = Refuse(target, arguments.size()); !refused.ok()) return refused;
    if (!here) stream = StreamTo(target.endpoint);
  }
  if (here) {
    Monotonic deadline = MonotonicNow() + kCallTimeoutDefault;
    return host_.TryDeliver(target.life, {std::move(method), std::move(arguments), deadline, nullptr, nullptr, {}});
  }
  absl::Status sent =
      stream->Send(CallEnvelope(0, target.life, std::move(method), std::move(arguments), kCallTimeoutDefault));
  return sent.ok() ? sent : NotSent(target.life, sent);
}

bool Transport::IsHere(const ActorAddress& target) const {
  return target.endpoint.empty() || host_.Living(target.life.path) == target.life.incarnation;
}

void Transport::Cancel(uint64_t id) {
  std::optional<OpenCall> call;
  {
    MutexLock lock(mutex_);
    call = calls_.Take(id);
  }
  if (!call.has_value()) return;
  Abandon(*call);
  call->reply(CallErrorStatus(v1::CallError::CALL_CANCELLED,
                              call->method + " of " + call->target.ToString() + " was cancelled; it may have run"));
}

std::shared_ptr<ClientStream> Transport::StreamOf(const OpenCall& call) const {
  MutexLock lock(mutex_);
  return OpenStream(call.stream);
}

std::shared_ptr<ClientStream> Transport::OpenStream(uint64_t id) const {
  auto found = std::find_if(streams_.begin(), streams_.end(), [id](const auto& s) { return s.second->id() == id; });
  return found == streams_.end() ? nullptr : found->second;
}

void Transport::Abandon(const OpenCall& call) {
  if (call.sink != nullptr) call.sink->Cancel();
  if (call.stream == 0) return host_.CancelCall(call.target, {this, call.id});
  std::shared_ptr<ClientStream> stream = StreamOf(call);
  if (stream == nullptr) return;
  v1::Envelope envelope;
  envelope.mutable_cancel()->set_call_id(call.id);
  *envelope.mutable_cancel()->mutable_target() = call.target.ToProto();
  stream->SendAlways(std::move(envelope));
}

void Transport::Grant(uint64_t id, size_t items, size_t bytes) {
  std::shared_ptr<StreamSink> sink;
  std::shared_ptr<ClientStream> stream;
  {
    MutexLock lock(mutex_);
    const OpenCall* call = calls_.Find(id);
    if (call == nullptr) return;
    sink = call->sink;
    stream = OpenStream(call->stream);
  }
  if (sink != nullptr) return sink->Grant(items, bytes);
  if (stream == nullptr) return;
  v1::Envelope envelope;
  *envelope.mutable_grant() = GrantOf(id, items, bytes);
  stream->SendAlways(std::move(envelope));
}

void Transport::TakeItem(v1::StreamItem&& item) {
  std::shared_ptr<const ItemCallback> take;
  {
    MutexLock lock(mutex_);
    if (const OpenCall* call = calls_.Find(item.call_id()); call != nullptr) take = call->item;
  }
  if (take != nullptr) (*take)(std::move(*item.mutable_value()));
}

uint64_t Transport::Watch(const ActorAddress& target, EndedCallback ended) {
  v1::ExitCause cause;
  bool lives_here = host_.Living(target.life.path) == target.life.incarnation;
  {
    MutexLock lock(mutex_);
    const v1::ExitCause* known = deaths_.CauseOf(target.life);
    if (known == nullptr && (lives_here || !target.endpoint.empty())) {
      return deaths_.Watch(target.life, std::move(ended));
    }
    if (known != nullptr) cause = *known;
  }
  if (cause.text().empty()) cause.set_text("it does not live in this process");
  ended(target.life, cause);
  return 0;
}

void Transport::Unwatch(uint64_t watch) {
  MutexLock lock(mutex_);
  deaths_.Unwatch(watch);
}

std::shared_ptr<ClientStream> Transport::StreamTo(const std::string& endpoint, bool patient) {
  std::shared_ptr<ClientStream>& stream = streams_[endpoint];
  if (stream != nullptr) return stream;
  uint64_t id = next_stream_++;
  std::weak_ptr<Transport> weak = weak_from_this();
  ClientStream::Events events;
  events.reply = [weak](v1::ActorReply&& reply) {
    uint64_t call_id = reply.call_id();
    if (auto self = weak.lock()) self->Complete(call_id, ResultOf(std::move(reply)));
  };
  events.item = [weak](v1::StreamItem&& item) {
    if (auto self = weak.lock()) self->TakeItem(std::move(item));
  };
  events.ended = [weak, id, endpoint](bool greeted, const absl::Status& status) {
    if (auto self = weak.lock()) self->StreamEnded(id, endpoint, greeted, status);
  };
  stream = ClientStream::Open(MakeChannel(endpoint, options_.security), options_.process_name, options_.frames, id,
                              std::move(events), patient);
  return stream;
}

void Transport::Complete(uint64_t id, absl::StatusOr<std::string> result) {
  std::optional<OpenCall> call;
  {
    MutexLock lock(mutex_);
    call = calls_.Take(id);
  }
  if (!call.has_value()) return;  // It was answered already: its deadline was over.
  if (call->acknowledges) Acknowledge(*call);
  call->reply(std::move(result));
}

void Transport::Acknowledge(const OpenCall& call) {
  std::shared_ptr<ClientStream> stream = StreamOf(call);
  if (stream == nullptr) return;
  v1::Envelope envelope;
  *envelope.mutable_ack()->mutable_key() = KeyOf(caller_id_, call.id);
  stream->SendAlways(std::move(envelope));
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
    v1::Envelope envelope = CallEnvelope(call.id, call.target, call.method, call.arguments, call.deadline - now);
    *envelope.mutable_call()->mutable_retry() = KeyOf(caller_id_, call.id);
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
    std::string text = may_have_run ? "the connection to " + call.target.ToString() + " (" + endpoint +
                                          ") broke: " + StatusText(status) + "; the call may have run"
                                    : "cannot reach " + call.target.ToString() + " at " + endpoint + ": " +
                                          StatusText(status) + "; the call did not run";
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, text));
  }
}

void Transport::MarkDead(const ActorLife& life, const v1::ExitCause& cause) {
  std::vector<OpenCall> calls;
  std::optional<std::vector<DeathBook::Told>> told;
  {
    MutexLock lock(mutex_);
    told = deaths_.Record(life, cause);
    if (!told.has_value()) return;
    calls = calls_.TakeTarget(life);
  }
  for (const DeathBook::Told& watcher : *told) watcher.ended(watcher.life, cause);
  for (OpenCall& call : calls) {
    if (call.sink != nullptr) call.sink->Cancel();
    call.reply(DiedStatus(DeathText(call.target, cause) + "; the call may have run", cause));
  }
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
      auto next_time = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return redials_.empty() ? calls_.NextDeadline() : std::min(calls_.NextDeadline(), redials_.front().first);
      };
      Monotonic next = next_time();
      timer_changed_.WaitUntil(lock, next, [&] { return stopping_ || next_time() < next; });
      if (stopping_) return;
      late = calls_.TakeExpired(MonotonicNow());
    }
    EndRedials(MonotonicNow());
    for (OpenCall& call : late) {
      if (call.streams()) Abandon(call);
      call.reply(CallErrorStatus(v1::CallError::CALL_DEADLINE, call.method + " of " + call.target.ToString() +
                                                                   " did not answer in time; it may have run"));
    }
  }
}

}  // namespace troupe
