// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_cell.h"

#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"

namespace troupe {
namespace {

// What a message costs beside its arguments.
constexpr size_t kMessageOverheadBytes = 128;

absl::Status RunOnStart(Actor& actor, ActorContext& context) {
  try {
    return actor.OnStart(context);
  } catch (...) {
    return internal::ExceptionStatus("OnStart");
  }
}

void RunOnStop(Actor& actor, const std::string& reason) {
  try {
    actor.OnStop(reason);
  } catch (...) {
    // The actor ends either way; its own log says more.
  }
}

}  // namespace

ActorCell::ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
                     MailboxLimits limits, std::function<void()> before_destructor)
    : class_(actor_class),
      context_(context),
      actor_(std::move(actor)),
      mailbox_(limits),
      before_destructor_(std::move(before_destructor)) {}

ActorCell::~ActorCell() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    bool start_failed = started_.has_value() && !started_->ok();
    TROUPE_CHECK(ended_ || start_failed, "an actor is stopped before its cell goes");
  }
  thread_.join();
}

absl::Status ActorCell::Start() {
  thread_ = std::thread([this] { Run(); });
  MutexLock lock(mutex_);
  changed_.WaitUntil(lock, Monotonic::Infinite(), [this] { return started_.has_value(); });
  return *started_;
}

void ActorCell::Run() {
  absl::Status started = RunOnStart(*actor_, context_);
  if (!started.ok()) mailbox_.Close();
  {
    MutexLock lock(mutex_);
    started_ = started;
    changed_.NotifyAll();
  }
  while (std::optional<IncomingCall> call = mailbox_.Pop(Monotonic::Infinite())) Handle(*std::move(call));
  std::string reason;
  {
    MutexLock lock(mutex_);
    reason = stop_reason_;
  }
  if (started.ok()) RunOnStop(*actor_, reason);
  if (before_destructor_) before_destructor_();
  actor_ = nullptr;
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void ActorCell::Handle(IncomingCall call) {
  if (MonotonicNow() >= call.deadline) {
    call.reply(
        CallErrorStatus(v1::CallError::CALL_DEADLINE, call.method + " waited past its deadline and did not run"));
    return;
  }
  const ActorMethod* method = class_.FindMethod(call.method);
  if (method == nullptr) {
    v1::CallError error;
    error.set_kind(v1::CallError::CALL_MALFORMED);
    call.reply(WithCallError(
        absl::UnimplementedError("actor class " + class_.name + " of " + life().ToString() + " has no " + call.method),
        error));
    return;
  }
  method->invoke(*actor_, call.arguments, std::move(call.reply));
}

void ActorCell::Deliver(IncomingCall call) {
  size_t bytes = call.arguments.size() + kMessageOverheadBytes;
  absl::Status pushed = mailbox_.Push(std::move(call), bytes);
  if (pushed.ok()) return;  // Else the call is still here.
  auto kind = pushed.code() == absl::StatusCode::kResourceExhausted ? v1::CallError::CALL_OVERLOADED
                                                                    : v1::CallError::CALL_UNAVAILABLE;
  call.reply(CallErrorStatus(kind, life().ToString() + ": " + MessageOf(pushed)));
}

bool ActorCell::Stop(std::string_view reason, Monotonic deadline) {
  context_.SetStopping();
  {
    MutexLock lock(mutex_);
    if (stop_reason_.empty()) stop_reason_ = std::string(reason);
  }
  for (IncomingCall& call : mailbox_.Close()) {
    call.reply(
        CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, life().ToString() + " stopped before it ran " + call.method));
  }
  MutexLock lock(mutex_);
  if (!thread_.joinable()) return true;
  return changed_.WaitUntil(lock, deadline, [this] { return ended_; });
}

}  // namespace troupe
