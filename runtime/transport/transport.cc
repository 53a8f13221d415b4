// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/transport.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/transport/call_envelope.h"
#include "runtime/transport/client_stream.h"
#include "runtime/transport/ring_hub.h"
#include "runtime/transport/server_session.h"
#include "runtime/transport/transport_service.h"

namespace troupe {
namespace {

absl::Status NotSent(const ActorLife& target, const absl::Status& sent) {
  auto kind = sent.code() == absl::StatusCode::kResourceExhausted ? v1::CallError::CALL_OVERLOADED
                                                                  : v1::CallError::CALL_UNAVAILABLE;
  return CallErrorStatus(kind, target.ToString() + ": " + MessageOf(sent) + "; the call did not run");
}

std::string DeathText(const ActorLife& life, const v1::ExitCause& cause) {
  return life.ToString() + " died: " + (cause.text().empty() ? "its process has ended" : cause.text());
}

std::string TextOf(const CallRoute& route) { return route.method + " of " + route.target.ToString(); }

RingHubOptions RingOptionsOf(const TransportOptions& options, std::shared_ptr<TransportCounters> counters) {
  RingHubOptions rings;
  rings.counters = std::move(counters);
  rings.session_timeout = options.session_timeout;
  rings.process_name = options.process_name;
  rings.token = options.security.token;
  rings.ring_bytes = options.ring_bytes;
  rings.pipe.queue_records_max = options.frames.queue_envelopes_max;
  rings.pipe.queue_bytes_max = options.frames.queue_bytes_max;
  // The payload, and what stands around it (an error's text).
  constexpr size_t kAroundPayloadBytes = 1 << 20;
  rings.pipe.record_bytes_max = options.whole_payload_bytes_max + kAroundPayloadBytes;
  rings.pipe.spin = options.ring_spin;
  rings.pipe.shares_core = options.ring_shares_core;
  return rings;
}

}  // namespace

std::shared_ptr<Transport> Transport::Create(TransportOptions options, ActorHost& host) {
  TROUPE_CHECK(!options.process_name.empty(), "a process that calls actors has a name");
  std::shared_ptr<Transport> transport(new Transport(std::move(options), host));
  transport->timer_ = std::thread([raw = transport.get()] { raw->RunTimer(); });
  transport->local_calls()->SetPayloadMax(transport->options_.payload_bytes_max);
  transport->local_calls()->SetTimer([weak = transport->weak_from_this()] {
    if (auto self = weak.lock()) self->LookAtTimer();
  });
  transport->waits().SetWake([weak = transport->weak_from_this()] {
    if (auto self = weak.lock()) self->WatchWaits();
  });
  return transport;
}

Transport::Transport(TransportOptions options, ActorHost& host)
    : options_(std::move(options)),
      caller_id_(RandomUint64()),
      host_(host),
      receiver_(std::make_unique<CallReceiver>(
          Transfers(), host, [this](uint64_t session, const std::string& probe) { return TakeProbe(session, probe); })),
      service_(MakeService()),
      rings_(options_.rings ? RingHub::Create(RingOptionsOf(options_, counters_)) : nullptr),
      calls_(options_.calls),
      circles_(waits()) {}

TransferLimits Transport::Transfers() const {
  TransferLimits limits;
  limits.payload_bytes_max = options_.payload_bytes_max;
  limits.assembled_bytes_max = options_.payload_bytes_max;
  limits.whole_bytes_max = std::min(options_.payload_bytes_max, options_.whole_payload_bytes_max);
  return limits;
}

std::unique_ptr<TransportService> Transport::MakeService() {
  TransportServiceOptions service;
  service.process_name = options_.process_name;
  service.limits = options_.frames;
  service.session_timeout = options_.session_timeout;
  service.counters = counters_;
  service.detached = [this] {
    MutexLock lock(mutex_);
    detached_at_ = std::min(detached_at_, MonotonicNow() + options_.session_timeout);
    if (detached_at_ < timer_at_) timer_changed_.NotifyAll();
  };
  service.list = [this](v1::ListConnectionsResponse& response) { List(response); };
  return std::make_unique<TransportService>(std::move(service), *receiver_);
}

Transport::~Transport() { Shutdown(); }

grpc::Service* Transport::service() { return service_.get(); }

absl::Status Transport::Refuse(const ActorAddress& target) const {
  bool restarted_here = target.endpoint.empty() && host_.Living(target.life.path) > target.life.incarnation;
  if (restarted_here) return absl::OkStatus();  // The host tells of the successor.
  const v1::ExitCause* cause = deaths_.CauseOf(target.life);
  return cause == nullptr ? absl::OkStatus() : DiedStatus(DeathText(target.life, *cause), *cause);
}

absl::Status Transport::FindWay(const ActorAddress& target, std::string_view method, size_t bytes, Way& way) {
  if (stopping_) return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "this process is stopping");
  if (bytes > options_.payload_bytes_max) {
    return CallErrorStatus(v1::CallError::CALL_TOO_LARGE, "the arguments have " + std::to_string(bytes) +
                                                              " bytes, more than the " +
                                                              std::to_string(options_.payload_bytes_max) + " allowed");
  }
  const uint64_t added = host_.added();
  KnownWay& known = known_ways_[(reinterpret_cast<uintptr_t>(&target) / sizeof(ActorAddress)) % known_ways_.size()];
  if (known.Leads(target, method, added)) {
    way = known.way;
    return absl::OkStatus();
  }
  TROUPE_RETURN_IF_ERROR(Refuse(target));
  way.route = routes_.Get(target.life, method);
  if (IsHere(target)) return absl::OkStatus();
  way.stream = StreamTo(target);
  known = {way, target.endpoint, added};
  return absl::OkStatus();
}

uint64_t Transport::Call(const ActorAddress& target, OutgoingCall&& outgoing) {
  absl::Duration timeout = std::clamp(outgoing.timeout, absl::ZeroDuration(), kCallTimeoutMax);
  std::unique_ptr<OpenCall> call(new OpenCall);
  call->deadline = DeadlineIn(timeout);
  call->bytes = outgoing.arguments.size();
  call->reply = std::move(outgoing.reply);
  const bool streams = static_cast<bool>(outgoing.item);
  const Monotonic deadline = call->deadline;
  std::shared_ptr<StreamSink> sink;
  bool may_repeat = false;
  Way way;
  RepeatKey key;
  absl::StatusOr<uint64_t> id;
  {
    MutexLock lock(mutex_);
    absl::Status refused = FindWay(target, outgoing.method, call->bytes, way);
    if (!refused.ok()) {
      id = refused;
    } else {
      const bool here = way.stream == nullptr;
      if (streams && here) call->sink = sink = std::make_shared<StreamSink>(std::move(outgoing.item), outgoing.window);
      if (streams && !here) call->item = std::make_shared<ItemCallback>(std::move(outgoing.item));
      may_repeat = outgoing.retries > 0 && !here && !streams;
      if (may_repeat) {
        call->retries_left = outgoing.retries;
        call->acknowledges = true;
        call->arguments = outgoing.arguments;
      }
      call->stream = here ? 0 : way.stream->id();
      call->route = way.route;
      id = calls_.Add(call);
      if (!id.ok()) id = CallErrorStatus(v1::CallError::CALL_OVERLOADED, MessageOf(id.status()));
      if (id.ok() && may_repeat) key = KeyOf(*id, *way.stream);
      if (deadline < timer_at_) timer_changed_.NotifyAll();
    }
  }
  if (!id.ok()) {
    call->reply(id.status());
    return 0;
  }
  if (way.stream == nullptr) {
    IncomingCall incoming = {
        std::move(outgoing.method), std::move(outgoing.arguments), deadline, nullptr, sink, {this, *id}};
    incoming.reply = [weak = weak_from_this(), id = *id](absl::StatusOr<std::string> result) {
      if (auto self = weak.lock()) self->Complete(id, std::move(result));
    };
    host_.Deliver(target.life, std::move(incoming));
    return *id;
  }
  Envelope envelope = CallEnvelope(*id, std::move(way.route), std::move(outgoing.arguments), timeout);
  envelope.streams = streams;
  envelope.items = outgoing.window.items;
  envelope.item_bytes = outgoing.window.bytes;
  envelope.repeats = may_repeat;
  envelope.repeat = key;
  absl::Status sent = way.stream->Send(std::move(envelope));
  // The stream's end, which is still to be told, sends what may be repeated again.
  bool sent_again = may_repeat && absl::IsUnavailable(sent);
  if (!sent.ok() && !sent_again) Complete(*id, NotSent(target.life, sent));
  return *id;
}

absl::Status Transport::Send(const ActorAddress& target, std::string method, std::string arguments) {
  Way way;
  {
    MutexLock lock(mutex_);
    TROUPE_RETURN_IF_ERROR(FindWay(target, method, arguments.size(), way));
  }
  if (way.stream == nullptr) {
    Monotonic deadline = DeadlineIn(kCallTimeoutDefault);
    return host_.TryDeliver(target.life, {std::move(method), std::move(arguments), deadline, nullptr, nullptr, {}});
  }
  absl::Status sent =
      way.stream->Send(CallEnvelope(0, std::move(way.route), std::move(arguments), kCallTimeoutDefault));
  return sent.ok() ? sent : NotSent(target.life, sent);
}

ActorPlace Transport::Locate(ActorAddress address) const { return host_.Locate(std::move(address)); }

bool Transport::IsHere(const ActorAddress& target) const {
  return target.endpoint.empty() || host_.Living(target.life.path) == target.life.incarnation;
}

void Transport::Cancel(uint64_t id) {
  std::unique_ptr<OpenCall> call;
  {
    MutexLock lock(mutex_);
    call = calls_.Take(id);
  }
  if (call == nullptr) return;
  Abandon(*call);
  call->reply(CallErrorStatus(v1::CallError::CALL_CANCELLED, TextOf(*call->route) + " was cancelled; it may have run"));
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
  if (call.stream == 0) return host_.CancelCall(call.target(), {this, call.id});
  std::shared_ptr<ClientStream> stream = StreamOf(call);
  if (stream == nullptr) return;
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCancel;
  envelope.call_id = call.id;
  envelope.route = call.route;
  stream->CancelCall(std::move(envelope));
  Acknowledge(call);
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
  Envelope envelope;
  envelope.kind = Envelope::Kind::kGrant;
  envelope.call_id = id;
  envelope.items = items;
  envelope.item_bytes = bytes;
  stream->SendAlways(std::move(envelope));
}

void Transport::WaitReading(uint64_t id, internal::FutureBase& future, Monotonic deadline) {
  std::shared_ptr<ClientStream> stream;
  bool alone = false;
  {
    MutexLock lock(mutex_);
    const OpenCall* call = calls_.Find(id);
    if (call == nullptr || call->stream == 0) return;
    stream = OpenStream(call->stream);
    alone = calls_.size() == 1;
  }
  if (stream != nullptr) stream->WaitReading(future, alone, deadline);
}

void Transport::TakeItem(Envelope&& item) {
  std::shared_ptr<const ItemCallback> take;
  {
    MutexLock lock(mutex_);
    if (const OpenCall* call = calls_.Find(item.call_id); call != nullptr) take = call->item;
  }
  if (take != nullptr) (*take)(std::move(item.bytes));
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

void Transport::Complete(uint64_t id, absl::StatusOr<std::string> result) {
  std::unique_ptr<OpenCall> call;
  {
    MutexLock lock(mutex_);
    call = calls_.Take(id);
  }
  if (call == nullptr) return;  // It was answered already: its deadline was over.
  Acknowledge(*call);
  call->reply(std::move(result));
}

void Transport::MarkDead(const ActorLife& life, const v1::ExitCause& cause) {
  std::vector<OpenCall> calls;
  std::optional<std::vector<DeathBook::Told>> told;
  {
    MutexLock lock(mutex_);
    known_ways_ = {};
    told = deaths_.Record(life, cause);
    if (!told.has_value()) return;
    calls = calls_.TakeTarget(life);
  }
  host_.Shut(life);  // Refs that go there without this find it closed, and ask here.
  for (const DeathBook::Told& watcher : *told) watcher.ended(watcher.life, cause);
  for (OpenCall& call : calls) {
    if (call.sink != nullptr) call.sink->Cancel();
    Acknowledge(call);
    call.reply(DiedStatus(DeathText(call.target(), cause) + "; the call may have run", cause));
  }
}

void Transport::Shutdown() {
  waits().SetWake(nullptr);
  local_calls()->SetTimer(nullptr);
  std::vector<OpenCall> calls;
  std::vector<std::shared_ptr<ClientStream>> streams;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    known_ways_ = {};
    calls = calls_.TakeAll();
    for (auto& [endpoint, stream] : streams_) streams.push_back(stream);
    timer_changed_.NotifyAll();
  }
  for (OpenCall& call : calls) {
    call.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "this process stopped before the reply came"));
  }
  for (const auto& stream : streams) stream->Cancel();
  receiver_->Shutdown();
  if (rings_ != nullptr) rings_->Shutdown();
  if (timer_.joinable()) timer_.join();
}

size_t Transport::open_calls() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

void Transport::LookAtTimer() {
  MutexLock lock(mutex_);
  if (local_calls()->NextDeadline() < timer_at_) timer_changed_.NotifyAll();
}

void Transport::RunTimer() {
  while (true) {
    std::vector<OpenCall> late;
    {
      MutexLock lock(mutex_);
      auto next_time = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        Monotonic next = std::min({calls_.NextDeadline(), local_calls()->NextDeadline(), circles_at_, detached_at_});
        return redials_.empty() ? next : std::min(next, redials_.front().first);
      };
      Monotonic next = timer_at_ = next_time();
      timer_changed_.WaitUntil(lock, next, [&] { return stopping_ || next_time() < next; });
      if (stopping_) return;
      late = calls_.TakeExpired(MonotonicNow());
    }
    EndRedials(MonotonicNow());
    EndDetached(MonotonicNow());
    LookForCircles(MonotonicNow());
    for (const auto& call : local_calls()->TakeDue(MonotonicNow())) call->Expire();
    for (OpenCall& call : late) {
      Abandon(call);
      call.reply(CallErrorStatus(v1::CallError::CALL_DEADLINE,
                                 TextOf(*call.route) + " did not answer in time; it may have run"));
    }
  }
}

}  // namespace troupe
