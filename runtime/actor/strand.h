// SPDX-License-Identifier: Apache-2.0
// Strand: an actor as its own handlers and tasks see it: where their continuations run, and what they occupy meanwhile.
// Internal to task.h, stream.h, actor_context.h; ActorCell is the one that there is.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "runtime/actor/executor.h"
#include "runtime/actor/future_state.h"
#include "runtime/base/ids.h"

namespace troupe {

class CallRouter;

namespace internal {

class Strand {
 public:
  // Of the handler, task or timer that runs on this thread; null outside of actors.
  static Strand*& Current() {
    static thread_local Strand* current = nullptr;
    return current;
  }

  virtual std::shared_ptr<Strand> Share() = 0;
  virtual const ActorLife& life() const = 0;
  virtual Executor& executor() = 0;
  virtual const std::shared_ptr<CallRouter>& router() const = 0;

  // Any thread, of who ended the rest of its mailbox: posts a turn.
  virtual void Wake() = 0;
  // Any thread. Runs `task` in the actor's turn, before the messages that wait; dropped after the actor's end.
  virtual void Run(std::function<void()> task) = 0;

  // In its turn: a handler goes on after its first return (a Task, a Stream); the actor does not end before it does.
  // Unless it is reentrant, no message is taken meanwhile.
  virtual void Opened(bool reentrant) = 0;
  virtual void Closed(bool reentrant) = 0;

  // In its turn: a handler that is not reentrant begins to await the answer of a call. CALL_DEADLOCK: it would wait
  // for itself. The number is for EndAwait.
  virtual absl::StatusOr<uint64_t> BeginAwait(const FutureBase& future) = 0;
  // Any thread: the answer is there.
  virtual void EndAwait(uint64_t number) = 0;

  // Any thread: the actor ends, with that cause.
  virtual void EndSelf(const v1::ExitCause& cause) = 0;

  // In its turn: a handler threw; the actor's policy decides whether it lives on.
  virtual void Threw(const absl::Status& error) = 0;

 protected:
  ~Strand() = default;
};

// Sets the strand of this thread for a scope.
class StrandScope {
 public:
  explicit StrandScope(Strand* strand) : before_(std::exchange(Strand::Current(), strand)) {}
  ~StrandScope() { Strand::Current() = before_; }
  StrandScope(const StrandScope&) = delete;
  StrandScope& operator=(const StrandScope&) = delete;

 private:
  Strand* const before_;
};

}  // namespace internal
}  // namespace troupe
