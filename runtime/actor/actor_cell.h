// SPDX-License-Identifier: Apache-2.0
// ActorCell: one living actor with its mailbox. Runs OnStart, the messages, what its tasks and timers go on with,
// OnStop and the destructor, one after the other, in turns that its executor gives it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/actor/actor.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/local_door.h"
#include "runtime/actor/mailbox.h"
#include "runtime/actor/strand.h"
#include "runtime/actor/stream_sink.h"

namespace troupe {

// A call as it arrives.
struct IncomingCall {
  std::string method;
  std::string arguments;
  Monotonic deadline;                // When it is over before the call was begun, it is not begun.
  ReplyCallback reply;               // Exactly once; empty: one way.
  std::shared_ptr<StreamSink> sink;  // Null unless the caller asked for a stream.
  CallKey key;

  void Reply(absl::StatusOr<std::string> result) const {
    if (reply) reply(std::move(result));
  }
};

struct ActorCellOptions {
  MailboxLimits mailbox;
  // Outlives the actor. Null: a thread of the actor's own, always the same (what LibTorch and blocking work want).
  Executor* executor = nullptr;
  // Of the thread of the actor's own, when it has one.
  std::shared_ptr<IdleWork> idle;
  // In the actor's turn between OnStop (or a failed OnStart) and the destructor: there the server that uses the actor's
  // services is shut down.
  std::function<void()> before_destructor;
  bool ends_on_exception = false;  // A handler that throws ends the actor with a failure.
  // In the last turn, after the destructor.
  Callback<void(const v1::ExitCause&)> ended;
};

class ActorCell final : public internal::Strand,
                        private internal::ThreadWaiter,
                        public std::enable_shared_from_this<ActorCell> {
 public:
  // `actor_class` outlives the cell, `context` its last turn. Held by shared pointers only.
  ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
            ActorCellOptions options = {});
  // The actor has ended, or Begin was never called.
  ~ActorCell();

  // Runs OnStart; the future has what it said. Messages that come before wait. Once. Of a class that has no OnStart it
  // has started when this returns, and the future is not valid.
  Future<void> Begin();
  // Begin, and waits.
  absl::Status Start() {
    Future<void> started = Begin();
    return started.valid() ? started.Get() : absl::OkStatus();
  }

  // Any thread. Queues the call, or answers it: CALL_OVERLOADED, CALL_UNAVAILABLE (stopping).
  void Deliver(IncomingCall call);
  // Any thread. The same, the answer returned; `call` is used up only when it is OK.
  absl::Status TryDeliver(IncomingCall& call);
  // Any thread. A call that waits is dropped without an answer.
  void CancelCall(const CallKey& key);

  // Any thread. Answers what waits with CALL_UNAVAILABLE, cancels streams, lets handlers end; then OnStop(reason)
  // (unless the cause is SIGNALED), the destructor and `ended`. The first reason and cause count.
  void BeginStop(std::string_view reason, const v1::ExitCause& cause);
  // BeginStop, and waits until it is over or the deadline; if not over it goes on, and the process must be ended.
  bool Stop(std::string_view reason, Monotonic deadline);

  // Strand.
  std::shared_ptr<Strand> Share() override { return shared_from_this(); }
  const ActorLife& life() const override { return door_->life; }
  const std::shared_ptr<internal::LocalDoor>& door() const { return door_; }
  Executor& executor() override { return *executor_; }
  const std::shared_ptr<CallRouter>& router() const override { return context_.router(); }
  void Wake() override;
  void Run(std::function<void()> task) override;
  void Opened(bool reentrant) override;
  void Closed(bool reentrant) override;
  absl::StatusOr<uint64_t> BeginAwait(const internal::FutureBase& future) override;
  void EndAwait(uint64_t number) override;
  void EndSelf(const v1::ExitCause& cause) override { BeginStop(cause.text(), cause); }
  void Threw(const absl::Status& error) override;

 private:
  absl::Status Wait(internal::FutureBase& gate, std::span<internal::FutureBase* const> needed,
                    Monotonic deadline) override;
  absl::Status WaitUnnoted(internal::FutureBase& gate, Monotonic deadline);
  struct Call;
  struct Task;
  struct Ending {
    std::string reason;
    v1::ExitCause cause;
  };
  void Turn();
  // False: nothing to do; the turn is over.
  bool Step();
  // Whether a message may be begun now.
  bool TakesMessages() const { return started_ && holding_ == 0 && open_ < kOpenMax; }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  void RunOnStart(const Promise<void>& started);
  void Handle(IncomingCall call);
  void HandleSystem(const IncomingCall& call);
  void Finish();

  // Handlers that go on after their first return: with more the messages wait.
  static constexpr int kOpenMax = 65'536;

  const ActorClass& class_;
  const std::shared_ptr<internal::LocalDoor> door_;
  ActorContext& context_;  // Until `ended` was told.
  const std::function<void()> before_destructor_;
  const Callback<void(const v1::ExitCause&)> tell_ended_;
  const bool ends_on_exception_;
  std::unique_ptr<Executor> own_executor_;
  Executor* const executor_;
  // In its turns only:
  std::unique_ptr<Actor> actor_;
  int holding_ = 0;       // Open handlers that are not reentrant.
  int open_ = 0;          // Open handlers.
  bool started_ = false;  // OnStart has succeeded.

  std::atomic<bool> begun_{false};
  std::atomic<bool> stopping_{false};  // Set under the mutex.
  Mutex mutex_;
  std::vector<std::weak_ptr<StreamSink>> streams_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Ending> ending_ ABSL_GUARDED_BY(mutex_);  // From the first BeginStop on.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;               // OnStop has run: there is nothing to stop any more.
  internal::Gate ended_;
};

}  // namespace troupe
