// SPDX-License-Identifier: Apache-2.0
#include "runtime/testing/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/actor/strand.h"
#include "runtime/env/file.h"
#include "runtime/testing/simulation_world.h"

namespace troupe::testing {
namespace {

std::string Sender() {
  internal::Strand* strand = internal::Strand::Current();
  return strand == nullptr ? Simulation::kTest : strand->life().path.role;
}

}  // namespace

uint64_t SeedFromEnvironment(uint64_t otherwise) {
  std::string text = EnvironmentVariable("TROUPE_SEED");
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
}

std::vector<size_t> Simulation::World::Resumable() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < fibers_.waiting().size(); ++i) {
    const FiberSet::Waiting& waiting = fibers_.waiting()[i];
    if (ended_ || waiting.future->IsSet() || waiting.deadline <= now_) indices.push_back(i);
  }
  return indices;
}

bool Simulation::World::Step() {
  PostDueTimers();
  std::vector<size_t> resumable = Resumable();
  size_t choices = resumable.size() + tasks_.size() + channels_.size();
  if (choices == 0) return false;
  size_t choice = random_() % choices;
  if (choice < resumable.size()) {
    fibers_.Resume(resumable[choice]);
    return true;
  }
  choice -= resumable.size();
  if (choice < tasks_.size()) {
    RunTask(choice);
    return true;
  }
  DeliverFrom(std::next(channels_.begin(), static_cast<ptrdiff_t>(choice - tasks_.size())));
  return true;
}

void Simulation::World::RunTask(size_t index) {
  auto at = tasks_.begin() + static_cast<ptrdiff_t>(index);
  std::function<void()> task = std::move(*at);
  tasks_.erase(at);
  fibers_.Start(std::move(task));
}

void Simulation::World::DeliverFrom(Channels::iterator channel) {
  Message message = std::move(channel->second.front());
  channel->second.pop_front();
  std::string path = channel->first.from + " -> " + channel->first.to;
  if (channel->second.empty()) channels_.erase(channel);
  char time[32];
  std::snprintf(time, sizeof(time), "%.3fs ", static_cast<double>(now_.nanoseconds() - kStartNs) * 1e-9);
  trace_ += time + path + ": " + message.what + "\n";
  message.arrive();
}

void Simulation::World::Settle() {
  while (true) {
    PostDueTimers();
    std::vector<size_t> resumable = Resumable();
    if (!resumable.empty()) {
      fibers_.Resume(resumable.front());
    } else if (!tasks_.empty()) {
      RunTask(0);
    } else {
      return;
    }
  }
}

Monotonic Simulation::World::NextTime() const {
  Monotonic next = calls_.NextDeadline();
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first.first);
  for (const FiberSet::Waiting& waiting : fibers_.waiting()) next = std::min(next, waiting.deadline);
  return next;
}

void Simulation::World::PassTimeTo(Monotonic time) {
  now_ = std::max(now_, time);
  for (OpenCall& call : calls_.TakeExpired(now_)) {
    if (call.sink != nullptr) call.sink->Cancel();
    call.reply(CallErrorStatus(v1::CallError::CALL_DEADLINE, call.method() + " of " + call.target().ToString() +
                                                                 " did not answer in time; it may have run"));
  }
  PostDueTimers();
}

void Simulation::World::PostDueTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    tasks_.push_back(std::move(timers_.begin()->second));
    timers_.erase(timers_.begin());
  }
}

void Simulation::World::AdvanceTo(Monotonic end) {
  while (true) {
    while (Step()) {
    }
    Monotonic next = NextTime();
    if (next > end) break;
    PassTimeTo(next);
  }
  PassTimeTo(end);
}

absl::Status Simulation::World::Wait(internal::FutureBase& gate, std::span<internal::FutureBase* const>,
                                     Monotonic deadline) {
  while (!gate.IsSet()) {
    if (Step()) continue;
    Monotonic next = NextTime();
    if (next.infinite() && deadline.infinite()) {
      return absl::FailedPreconditionError("nothing is left that could bring the result (seed " +
                                           std::to_string(seed_) + ")");
    }
    if (next > deadline) {
      PassTimeTo(deadline);
      return absl::DeadlineExceededError("no result yet");
    }
    PassTimeTo(next);
  }
  return absl::OkStatus();
}

uint64_t Simulation::World::Call(const ActorAddress& target, OutgoingCall&& outgoing) {
  if (ended_) {
    outgoing.reply(CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the simulation has ended"));
    return 0;
  }
  if (const v1::ExitCause* cause = deaths_.CauseOf(target.life);
      cause != nullptr && host_.Living(target.life.path) <= target.life.incarnation) {
    outgoing.reply(DiedStatus(target.life.ToString() + " died: " + cause->text(), *cause));
    return 0;
  }
  std::string from = Sender(), to = target.life.path.role, method = outgoing.method;
  std::unique_ptr<OpenCall> call(new OpenCall);
  call->route = std::make_shared<const CallRoute>(CallRoute{target.life, method});
  call->deadline = now_ + std::clamp(outgoing.timeout, absl::ZeroDuration(), kCallTimeoutMax);
  call->bytes = outgoing.arguments.size();
  call->reply = std::move(outgoing.reply);
  Channel back = {to, from, target.life};
  if (outgoing.item) {
    call->sink = std::make_shared<StreamSink>(
        [this, back, method, item = std::move(outgoing.item)](std::string bytes) {
          Put(back, {"item of " + method, 0, [item, bytes = std::move(bytes)] { item(bytes); }});
        },
        outgoing.window);
  }
  IncomingCall incoming = {method, std::move(outgoing.arguments), call->deadline, nullptr, call->sink, {}};
  absl::StatusOr<uint64_t> id = calls_.Add(call);
  if (!id.ok()) {
    call->reply(CallErrorStatus(v1::CallError::CALL_OVERLOADED, std::string(id.status().message())));
    return 0;
  }
  incoming.key = {this, *id};
  incoming.reply = [this, back, method, id = *id](absl::StatusOr<std::string> result) {
    if (calls_.Find(id) == nullptr) return;
    Put(back, {kReplyOf + method, id, [this, id, result = std::move(result)] { Complete(id, result); }});
  };
  Put({from, to, target.life}, {method, *id, [this, life = target.life, incoming = std::move(incoming)] {
                                  if (calls_.Find(incoming.key.id) != nullptr) host_.Deliver(life, incoming);
                                }});
  return *id;
}

absl::Status Simulation::World::Send(const ActorAddress& target, std::string method, std::string arguments) {
  if (ended_) return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the simulation has ended");
  if (deaths_.CauseOf(target.life) != nullptr && host_.Living(target.life.path) <= target.life.incarnation) {
    return DiedStatus(target.life.ToString() + " died", *deaths_.CauseOf(target.life));
  }
  IncomingCall call = {method, std::move(arguments), now_ + kCallTimeoutDefault, nullptr, nullptr, {}};
  Put({Sender(), target.life.path.role, target.life},
      {method, 0, [this, life = target.life, call] { (void)host_.TryDeliver(life, call); }});
  return absl::OkStatus();
}

void Simulation::World::Complete(uint64_t id, absl::StatusOr<std::string> result) {
  if (std::unique_ptr<OpenCall> call = calls_.Take(id); call != nullptr) call->reply(std::move(result));
}

void Simulation::World::Cancel(uint64_t id) {
  std::unique_ptr<OpenCall> call = calls_.Take(id);
  if (call == nullptr) return;
  if (call->sink != nullptr) call->sink->Cancel();
  host_.CancelCall(call->target(), {this, id});
  call->reply(CallErrorStatus(v1::CallError::CALL_CANCELLED, call->method() + " was cancelled; it may have run"));
}

void Simulation::World::Grant(uint64_t id, size_t items, size_t bytes) {
  const OpenCall* call = calls_.Find(id);
  if (call != nullptr && call->sink != nullptr) call->sink->Grant(items, bytes);
}

uint64_t Simulation::World::Watch(const ActorAddress& target, EndedCallback ended) {
  if (host_.Living(target.life.path) == target.life.incarnation) return deaths_.Watch(target.life, std::move(ended));
  const v1::ExitCause* cause = deaths_.CauseOf(target.life);
  ended(target.life, cause == nullptr ? v1::ExitCause() : *cause);
  return 0;
}

void Simulation::World::MarkDead(const ActorLife& life, const v1::ExitCause& cause) {
  std::optional<std::vector<DeathBook::Told>> told = deaths_.Record(life, cause);
  if (!told.has_value()) return;
  for (const DeathBook::Told& watcher : *told) watcher.ended(watcher.life, cause);
  for (OpenCall& call : calls_.TakeTarget(life)) {
    call.reply(DiedStatus(call.target().ToString() + " died: " + cause.text() + "; the call may have run", cause));
  }
}

std::vector<std::string> Simulation::World::OnTheirWay() const {
  std::vector<std::string> lines;
  for (const auto& [channel, messages] : channels_) {
    for (const Message& message : messages) lines.push_back(channel.from + " -> " + channel.to + ": " + message.what);
  }
  return lines;
}

absl::Status Simulation::World::Deliver(const std::string& what, const std::string& from, const std::string& to,
                                        bool lose) {
  Settle();  // What was delivered before is handled first.
  for (auto it = channels_.begin(); it != channels_.end(); ++it) {
    if (it->first.from != from || it->first.to != to || it->second.front().what != what) continue;
    if (!lose) {
      DeliverFrom(it);
      Settle();
      return absl::OkStatus();
    }
    uint64_t call = it->second.front().call;
    it->second.pop_front();
    if (it->second.empty()) channels_.erase(it);
    Complete(call, CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, "the connection broke; the call may have run"));
    return absl::OkStatus();
  }
  std::string text = "the next message is not " + from + " -> " + to + ": " + what + " (seed " + std::to_string(seed_) +
                     "); on their way:";
  for (const std::string& line : OnTheirWay()) text += "\n  " + line;
  return absl::FailedPreconditionError(text);
}

Simulation::Simulation(SimulationOptions options) : world_(std::make_shared<World>(options.seed)) { world_->Begin(); }
Simulation::~Simulation() { world_->End(); }

bool Simulation::Step() { return world_->Step(); }
void Simulation::Run() {
  while (world_->Step()) {
  }
}
void Simulation::Advance(absl::Duration duration) { world_->AdvanceTo(world_->Now() + duration); }
Monotonic Simulation::Now() const { return world_->Now(); }
absl::Status Simulation::Deliver(const std::string& what, const std::string& from, const std::string& to, bool lose) {
  return world_->Deliver(what, from, to, lose);
}
void Simulation::Crash(const ActorLife& life) { world_->actors().Crash(life); }
std::vector<std::string> Simulation::OnTheirWay() const { return world_->OnTheirWay(); }
std::string Simulation::trace() const { return world_->trace(); }
uint64_t Simulation::seed() const { return world_->seed(); }
ActorSpawner& Simulation::spawner() { return world_->actors(); }
const std::shared_ptr<CallRouter>& Simulation::router() const { return world_->router(); }

}  // namespace troupe::testing
