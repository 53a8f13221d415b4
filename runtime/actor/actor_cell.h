// SPDX-License-Identifier: Apache-2.0
// ActorCell: one living actor with its mailbox. Runs OnStart, the messages, what its tasks and timers go on with,
// OnStop and the destructor, one after the other, in turns that its executor gives it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/actor/actor.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/mailbox.h"
#include "runtime/actor/strand.h"
#include "runtime/actor/stream_sink.h"

namespace troupe {

// Which call it is, for its cancellation: who delivered it, and its number there.
struct CallKey {
  const void* deliverer = nullptr;
  uint64_t id = 0;
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

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
  std::function<void(const v1::ExitCause&)> ended;
};

class ActorCell final : public internal::Strand,
                        private internal::ThreadWaiter,
                        public std::enable_shared_from_this<ActorCell> {
 public:
  // `actor_class` and `context` outlive the actor. Held by shared pointers only.
  ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
            ActorCellOptions options = {});
  // The actor has ended, or Begin was never called.
  ~ActorCell();

  // Runs OnStart; the future has what it said. Messages that come before wait. Once.
  Future<void> Begin();
  // Begin, and waits.
  absl::Status Start() { return Begin().Get(); }

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
  const ActorLife& life() const override { return context_.self(); }
  Executor& executor() override { return *executor_; }
  const std::shared_ptr<CallRouter>& router() const override { return context_.router(); }
  void Run(std::function<void()> task) override;
  void Opened(bool reentrant) override;
  void Closed(bool reentrant) override;
  absl::StatusOr<uint64_t> BeginAwait(const internal::PendingCall& call) override;
  void EndAwait(uint64_t number) override;
  void EndSelf(const v1::ExitCause& cause) override { BeginStop(cause.text(), cause); }
  void Threw(const absl::Status& error) override;

 private:
  absl::Status Wait(internal::FutureBase& gate, const std::vector<internal::FutureBase*>& needed,
                    Monotonic deadline) override;
  absl::Status WaitUnnoted(internal::FutureBase& gate, Monotonic deadline);
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Turn();
  // False: nothing to do; the turn is over.
  bool Step();
  void RunOnStart(const Promise<void>& started);
  void Handle(IncomingCall call);
  void HandleSystem(const IncomingCall& call);
  void Finish();

  const ActorClass& class_;
  ActorContext& context_;
  const ActorCellOptions options_;
  std::unique_ptr<Executor> own_executor_;
  Executor* const executor_;
  std::unique_ptr<Actor> actor_;  // In its turns only.
  int holding_ = 0;               // Open handlers that are not reentrant. In its turns only.
  int open_ = 0;                  // Open handlers. In its turns only.

  Mutex mutex_;
  Mailbox<IncomingCall> mailbox_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<StreamSink>> streams_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;    // OnStart has succeeded.
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;  // A turn is posted or runs.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string stop_reason_ ABSL_GUARDED_BY(mutex_);
  v1::ExitCause cause_ ABSL_GUARDED_BY(mutex_);
  internal::FutureState<absl::Status> ended_;
};

}  // namespace troupe
