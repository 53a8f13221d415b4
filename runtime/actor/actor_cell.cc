// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor_cell.h"

#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/check.h"
#include "runtime/base/small_pool.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

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

absl::Status StoppedStatus(const ActorLife& life, const std::string& method) {
  return CallErrorStatus(v1::CallError::CALL_UNAVAILABLE, life.ToString() + " stopped before it ran " + method);
}

}  // namespace

// A call that came encoded.
struct ActorCell::Call final : internal::Message, SmallPooled {
  Call(ActorCell& of, IncomingCall incoming) : cell(of), call(std::move(incoming)) {}
  void Run(Actor&, internal::Strand&) override {
    IncomingCall begun = std::move(call);
    ActorCell& runs = cell;
    delete this;
    runs.Handle(std::move(begun));
  }
  void Refuse(const ActorLife& life) override {
    call.Reply(StoppedStatus(life, call.method));
    delete this;
  }
  void Drop() override { delete this; }
  CallKey key() const override { return call.key; }

  ActorCell& cell;
  IncomingCall call;
};

// What a coroutine or a timer of the actor goes on with.
struct ActorCell::Task final : internal::Message, SmallPooled {
  explicit Task(std::function<void()> runs) : run(std::move(runs)) {}
  void Run(Actor&, internal::Strand&) override {
    std::unique_ptr<Task> self(this);
    if (run) run();
  }
  void Refuse(const ActorLife&) override { delete this; }
  void Drop() override { delete this; }

  std::function<void()> run;
};

ActorCell::ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
                     ActorCellOptions options)
    : class_(actor_class),
      door_(context.door()),
      context_(context),
      before_destructor_(std::move(options.before_destructor)),
      tell_ended_(std::move(options.ended)),
      ends_on_exception_(options.ends_on_exception),
      own_executor_(options.executor == nullptr ? std::make_unique<ThreadPool>(ThreadPoolOptions{1, 1, options.idle})
                                                : nullptr),
      executor_(options.executor == nullptr ? own_executor_.get() : options.executor),
      actor_(std::move(actor)) {
  door_->mailbox.SetLimits(options.mailbox);
  door_->strand = this;
  door_->actor_class = class_.tag;
}

ActorCell::~ActorCell() { TROUPE_CHECK(!begun_ || ended_.IsSet(), "an actor is stopped before its cell goes"); }

Future<void> ActorCell::Begin() {
  begun_ = true;
  if (!class_.has_on_start) {
    context_.Attach(this);
    started_ = true;
    if (stopping() || !door_->mailbox.Rest(true)) Wake();
    return Future<void>();
  }
  Promise<void> started;
  Future<void> future = started.TakeFuture();
  bool wakes = false;
  door_->mailbox.PushTask(new Task([this, started = std::move(started)] { RunOnStart(started); }), wakes);
  Wake();  // The mailbox has not rested so far.
  return future;
}

void ActorCell::RunOnStart(const Promise<void>& started) {
  context_.Attach(this);
  absl::Status status = CallOnStart(*actor_, context_);
  if (status.ok()) {
    started_ = true;
  } else {
    v1::ExitCause cause;
    cause.set_kind(v1::ExitCause::START_FAILED);
    cause.set_text("OnStart: " + StatusText(status));
    BeginStop("OnStart failed", cause);
  }
  started.Set(status);
}

void ActorCell::Wake() {
  executor_->Post([self = shared_from_this()] { self->Turn(); });
}

void ActorCell::Turn() {
  TurnScope scope(this, this);
  for (int step = 0; step < kTurnSteps; ++step) {
    if (!Step()) return;
  }
  Wake();
}

bool ActorCell::Step() {
  if (internal::Message* message = door_->mailbox.Pop(TakesMessages())) {
    message->Run(*actor_, *this);
    return true;
  }
  if (stopping() && open_ == 0) {
    Finish();
    return false;
  }
  return !door_->mailbox.Rest(TakesMessages());
}

void ActorCell::Finish() {
  Ending ending;
  {
    MutexLock lock(mutex_);
    ending = *ending_;
  }
  bool killed = ending.cause.kind() == v1::ExitCause::SIGNALED;
  if (started_ && !killed) CallOnStop(*actor_, ending.reason);
  context_.Detach();
  if (before_destructor_) before_destructor_();
  actor_ = nullptr;
  door_->Refuse(door_->mailbox.End());
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  if (tell_ended_) tell_ended_(ending.cause);
  ended_.Open();  // The last: who waits for it may take away what this actor used.
}

void ActorCell::Handle(IncomingCall call) {
  if (executor_->Passed(call.deadline)) return call.Reply(internal::LateStatus(call.method));
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
      stopped = stopping();
      std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
      if (!stopped) streams_.push_back(call.sink);
    }
    if (stopped) return call.Reply(StoppedStatus(life(), call.method));
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
  size_t bytes = call.arguments.size();
  auto message = std::make_unique<Call>(*this, std::move(call));
  absl::Status pushed = door_->Push(message.get(), bytes);
  if (pushed.ok()) {
    (void)message.release();
    return pushed;
  }
  call = std::move(message->call);
  return door_->NotTaken(pushed);
}

void ActorCell::Deliver(IncomingCall call) {
  if (absl::Status delivered = TryDeliver(call); !delivered.ok()) call.Reply(delivered);
}

void ActorCell::CancelCall(const CallKey& key) {
  if (internal::Message* message = door_->mailbox.Remove(key)) message->Drop();
}

void ActorCell::BeginStop(std::string_view reason, const v1::ExitCause& cause) {
  std::vector<std::weak_ptr<StreamSink>> streams;
  {
    MutexLock lock(mutex_);
    if (over_) return;
    context_.SetStopping();
    streams.swap(streams_);
    if (ending_ == nullptr) {
      ending_ = std::make_unique<Ending>(Ending{std::string(reason), cause});
      stopping_.store(true, std::memory_order_release);
    }
  }
  door_->Shut();
  for (const auto& stream : streams) {
    if (auto sink = stream.lock()) sink->Cancel();
  }
  Run(nullptr);  // A turn that sees it.
}

bool ActorCell::Stop(std::string_view reason, Monotonic deadline) {
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::STOPPED);
  cause.set_text(std::string(reason));
  BeginStop(reason, cause);
  if (!begun_) return true;
  return internal::WaitFor(ended_, {}, deadline).ok();
}

void ActorCell::Run(std::function<void()> task) {
  auto message = std::make_unique<Task>(std::move(task));
  bool wakes = false;
  if (door_->mailbox.PushTask(message.get(), wakes)) (void)message.release();
  if (wakes) Wake();
}

void ActorCell::Opened(bool reentrant) {
  ++open_;
  if (!reentrant) ++holding_;
}

void ActorCell::Closed(bool reentrant) {
  --open_;
  if (!reentrant) --holding_;
}

absl::StatusOr<uint64_t> ActorCell::BeginAwait(const internal::FutureBase& future) {
  const internal::PendingCall& call = *future.call();
  return router()->waits().Begin(life(), {{*call.waited_for(), call.number()}}, &future);
}

void ActorCell::EndAwait(uint64_t number) { router()->waits().End(life(), number); }

void ActorCell::Threw(const absl::Status& error) {
  if (!ends_on_exception_) return;
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::EXITED);
  cause.set_exit_code(1);
  cause.set_text(StatusText(error));
  EndSelf(cause);
}

absl::Status ActorCell::Wait(internal::FutureBase& gate, std::span<internal::FutureBase* const> needed,
                             Monotonic deadline) {
  std::vector<WaitedCall> calls;
  std::vector<internal::FutureBase*> waited;  // The futures of `calls`, if the gate is not the one.
  for (internal::FutureBase* future : needed) {
    if (future->call() == nullptr || future->call()->waited_for() == nullptr || future->IsSet()) continue;
    calls.push_back({*future->call()->waited_for(), future->call()->number()});
    if (needed.size() > 1) waited.push_back(future);
  }
  if (calls.empty() || router() == nullptr) return WaitUnnoted(gate, deadline);
  absl::StatusOr<uint64_t> number = router()->waits().Begin(life(), std::move(calls), &gate);
  if (!number.ok() && needed.size() == 1) needed[0]->call()->Cancel();  // It is not to run when nobody waits.
  if (!number.ok()) return number.status();
  auto end = [router = router(), door = door_, number = *number] { router->waits().End(door->life, number); };
  std::vector<uint64_t> observers;
  for (internal::FutureBase* future : waited) {
    observers.push_back(
        future->Observe([router = router(), door = door_, number = *number, call = future->call()->number()] {
          router->waits().Answered(door->life, number, call);
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
