// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_cell.h"

#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

// What a message costs beside its arguments.
constexpr size_t kMessageOverheadBytes = 128;
// Messages of one turn: an actor with a full mailbox lets others of its executor go on after that many.
constexpr int kTurnSteps = 64;

// Sets how this thread waits, and whose turn it has, for a scope.
class TurnScope {
 public:
  TurnScope(internal::Strand* strand, internal::ThreadWaiter* waiter)
      : strand_(strand), before_(std::exchange(internal::ThreadWaiter::Current(), waiter)) {}
  ~TurnScope() { internal::ThreadWaiter::Current() = before_; }

 private:
  internal::StrandScope strand_;
  internal::ThreadWaiter* const before_;
};

absl::Status CallOnStart(Actor& actor, ActorContext& context) {
  try {
    return actor.OnStart(context);
  } catch (...) {
    return internal::ExceptionStatus("OnStart");
  }
}

void CallOnStop(Actor& actor, const std::string& reason) {
  try {
    actor.OnStop(reason);
  } catch (...) {
    // The actor ends either way; its own log says more.
  }
}

absl::Status StoppedStatus(const ActorLife& life, const IncomingCall& call) {
  return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, life.ToString() + " stopped before it ran " + call.method);
}

}  // namespace

ActorCell::ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
                     ActorCellOptions options)
    : class_(actor_class),
      context_(context),
      options_(std::move(options)),
      own_executor_(options_.executor == nullptr ? std::make_unique<ThreadPool>(ThreadPoolOptions{1, 1, options_.idle})
                                                 : nullptr),
      executor_(options_.executor == nullptr ? own_executor_.get() : options_.executor),
      actor_(std::move(actor)),
      mailbox_(options_.mailbox) {}

ActorCell::~ActorCell() {
  MutexLock lock(mutex_);
  TROUPE_CHECK(!begun_ || ended_.IsSet(), "an actor is stopped before its cell goes");
}

Future<void> ActorCell::Begin() {
  Promise<void> started;
  MutexLock lock(mutex_);
  begun_ = true;
  tasks_.push_front([this, started] { RunOnStart(started); });
  Schedule();
  return started.TakeFuture();
}

void ActorCell::RunOnStart(const Promise<void>& started) {
  context_.Attach(this);
  absl::Status status = CallOnStart(*actor_, context_);
  if (status.ok()) {
    MutexLock lock(mutex_);
    started_ = true;
  } else {
    v1::ExitCause cause;
    cause.set_kind(v1::ExitCause::START_FAILED);
    cause.set_text("OnStart: " + StatusText(status));
    BeginStop("OnStart failed", cause);
  }
  started.Set(status);
}

void ActorCell::Schedule() {
  if (scheduled_ || ended_.IsSet()) return;
  scheduled_ = true;
  executor_->Post([self = shared_from_this()] { self->Turn(); });
}

void ActorCell::Turn() {
  TurnScope scope(this, this);
  for (int step = 0; step < kTurnSteps; ++step) {
    if (!Step()) return;
  }
  executor_->Post([self = shared_from_this()] { self->Turn(); });
}

bool ActorCell::Step() {
  std::function<void()> task;
  std::optional<IncomingCall> call;
  {
    MutexLock lock(mutex_);
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    } else if (started_ && holding_ == 0) {
      call = mailbox_.Pop();
    }
    bool finish = stopping_ && begun_ && open_ == 0;
    if (!task && !call.has_value() && !finish) {
      scheduled_ = false;
      return false;
    }
  }
  if (task) {
    task();
  } else if (call.has_value()) {
    Handle(*std::move(call));
  } else {
    Finish();
    return false;
  }
  return true;
}

void ActorCell::Finish() {
  std::string reason;
  v1::ExitCause cause;
  bool started = false;
  {
    MutexLock lock(mutex_);
    reason = stop_reason_;
    cause = cause_;
    started = started_;
  }
  bool killed = cause.kind() == v1::ExitCause::SIGNALED;
  if (started && !killed) CallOnStop(*actor_, reason);
  context_.Detach();
  if (options_.before_destructor) options_.before_destructor();
  actor_ = nullptr;
  std::deque<std::function<void()>> dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(tasks_);
  }
  if (options_.ended) options_.ended(cause);
  ended_.Set(absl::OkStatus());  // The last: who waits for it may take away what this actor used.
}

void ActorCell::Handle(IncomingCall call) {
  if (executor_->Now() >= call.deadline) {
    return call.Reply(
        CallErrorStatus(v1::CallError::CALL_DEADLINE, call.method + " waited past its deadline and did not run"));
  }
  if (call.method == internal::kLinkMethod) return HandleSystem(call);
  const ActorMethod* method = class_.FindMethod(call.method);
  if (method == nullptr) {
    v1::CallError error;
    error.set_kind(v1::CallError::CALL_MALFORMED);
    return call.Reply(WithCallError(
        absl::UnimplementedError("actor class " + class_.name + " of " + life().ToString() + " has no " + call.method),
        error));
  }
  if (call.sink != nullptr) {
    bool stopped = false;  // After this one had left the mailbox; BeginStop has cancelled the streams that it knew.
    {
      MutexLock lock(mutex_);
      stopped = stopping_;
      std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
      if (!stopped) streams_.push_back(call.sink);
    }
    if (stopped) return call.Reply(StoppedStatus(life(), call));
  }
  method->invoke(*actor_, {std::move(call.arguments), std::move(call.reply), std::move(call.sink)});
}

void ActorCell::HandleSystem(const IncomingCall& call) {
  absl::StatusOr<std::pair<std::string, std::string>> peer =
      Decode<std::pair<std::string, std::string>>(call.arguments);
  if (!peer.ok()) return call.Reply(CallErrorStatus(v1::CallError::CALL_MALFORMED, MessageOf(peer.status())));
  absl::StatusOr<ActorLife> life = ActorLife::Parse(peer->first);
  if (!life.ok()) return call.Reply(CallErrorStatus(v1::CallError::CALL_MALFORMED, MessageOf(life.status())));
  context_.EndWith({*std::move(life), peer->second});
  call.Reply(Encode(std::tuple<>()));
}

absl::Status ActorCell::TryDeliver(IncomingCall& call) {
  size_t bytes = call.arguments.size() + kMessageOverheadBytes;
  absl::Status pushed;
  {
    MutexLock lock(mutex_);
    pushed = mailbox_.Push(std::move(call), bytes);
    if (pushed.ok()) {
      if (started_) Schedule();
      return pushed;
    }
  }
  auto kind = pushed.code() == absl::StatusCode::kResourceExhausted ? v1::CallError::CALL_OVERLOADED
                                                                    : v1::CallError::CALL_UNAVAILABLE;
  return CallErrorStatus(kind, life().ToString() + ": " + MessageOf(pushed));
}

void ActorCell::Deliver(IncomingCall call) {
  if (absl::Status delivered = TryDeliver(call); !delivered.ok()) call.Reply(delivered);
}

void ActorCell::CancelCall(const CallKey& key) {
  std::optional<IncomingCall> dropped;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  dropped = mailbox_.Remove([&key](const IncomingCall& call) { return call.key == key; });
}

void ActorCell::BeginStop(std::string_view reason, const v1::ExitCause& cause) {
  context_.SetStopping();
  std::vector<IncomingCall> left;
  std::vector<std::weak_ptr<StreamSink>> streams;
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      stopping_ = true;
      stop_reason_ = std::string(reason);
      cause_ = cause;
    }
    left = mailbox_.Close();
    streams.swap(streams_);
    if (begun_) Schedule();
  }
  for (IncomingCall& call : left) {
    call.Reply(StoppedStatus(life(), call));
  }
  for (const auto& stream : streams) {
    if (auto sink = stream.lock()) sink->Cancel();
  }
}

bool ActorCell::Stop(std::string_view reason, Monotonic deadline) {
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::STOPPED);
  cause.set_text(std::string(reason));
  BeginStop(reason, cause);
  {
    MutexLock lock(mutex_);
    if (!begun_) return true;
  }
  return internal::WaitFor(ended_, {}, deadline).ok();
}

void ActorCell::Run(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (ended_.IsSet()) return;
  tasks_.push_back(std::move(task));
  Schedule();
}

void ActorCell::Opened(bool reentrant) {
  ++open_;
  if (!reentrant) ++holding_;
}

void ActorCell::Closed(bool reentrant) {
  --open_;
  if (!reentrant) --holding_;
}

absl::StatusOr<uint64_t> ActorCell::BeginAwait(const internal::PendingCall& call) {
  return router()->waits().Begin(life(), {{*call.waited_for(), call.number()}});
}

void ActorCell::EndAwait(uint64_t number) { router()->waits().End(life(), number); }

void ActorCell::Threw(const absl::Status& error) {
  if (!options_.ends_on_exception) return;
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::EXITED);
  cause.set_exit_code(1);
  cause.set_text(StatusText(error));
  EndSelf(cause);
}

absl::Status ActorCell::Wait(internal::FutureBase& gate, const std::vector<internal::FutureBase*>& needed,
                             Monotonic deadline) {
  std::vector<WaitedCall> calls;
  std::vector<internal::FutureBase*> waited;  // The futures of `calls`, if the gate is not the one.
  for (internal::FutureBase* future : needed) {
    if (future->call() == nullptr || future->call()->waited_for() == nullptr || future->IsSet()) continue;
    calls.push_back({*future->call()->waited_for(), future->call()->number()});
    if (needed.size() > 1) waited.push_back(future);
  }
  if (calls.empty() || router() == nullptr) return WaitUnnoted(gate, deadline);
  absl::StatusOr<uint64_t> number = router()->waits().Begin(life(), std::move(calls));
  if (!number.ok() && needed.size() == 1) needed[0]->call()->Cancel();  // It is not to run when nobody waits.
  if (!number.ok()) return number.status();
  std::function<void()> end = [router = router(), self = life(), number = *number] {
    router->waits().End(self, number);
  };
  std::vector<uint64_t> observers;
  for (internal::FutureBase* future : waited) {
    observers.push_back(
        future->Observe([router = router(), self = life(), number = *number, call = future->call()->number()] {
          router->waits().Answered(self, number, call);
        }));
  }
  const uint64_t observer = gate.Observe(end);
  absl::Status status = WaitUnnoted(gate, deadline);
  for (size_t i = 0; i < observers.size(); ++i) waited[i]->Unobserve(observers[i]);
  gate.Unobserve(observer);
  end();  // When the deadline came first.
  return status;
}

absl::Status ActorCell::WaitUnnoted(internal::FutureBase& gate, Monotonic deadline) {
  return executor_->Wait(gate, deadline) ? absl::OkStatus() : absl::DeadlineExceededError("no result yet");
}

}  // namespace troupe
