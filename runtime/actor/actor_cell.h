// SPDX-License-Identifier: Apache-2.0
// ActorCell: one living actor with its mailbox and its thread. Runs OnStart, the messages one at a time, OnStop and the
// destructor, all on that thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "runtime/actor/actor.h"
#include "runtime/actor/actor_class.h"
#include "runtime/actor/actor_context.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/mailbox.h"

namespace troupe {

// A call as it arrives.
struct IncomingCall {
  std::string method;
  std::string arguments;
  Monotonic deadline;   // When it is over before the call was begun, it is not begun.
  ReplyCallback reply;  // Exactly once.
};

class ActorCell {
 public:
  // `actor_class` and `context` outlive the cell. `before_destructor` runs on the actor's thread between OnStop (or a
  // failed OnStart) and the destructor: there the server that uses the actor's services is shut down.
  ActorCell(const ActorClass& actor_class, std::unique_ptr<Actor> actor, ActorContext& context,
            MailboxLimits limits = {}, std::function<void()> before_destructor = {});
  // Stop with no grace must have succeeded, or Start never been called.
  ~ActorCell();

  // Runs OnStart and returns what it said; messages are taken from then on. Once.
  absl::Status Start();

  // Any thread. Queues the call, or answers it: CALL_OVERLOADED, CALL_UNAVAILABLE (stopping).
  void Deliver(IncomingCall call);

  // Answers what waits with CALL_UNAVAILABLE, lets the running handler end, runs OnStop(reason) and the destructor.
  // Returns whether that was over by the deadline; if not it goes on, and the process must be ended.
  bool Stop(std::string_view reason, Monotonic deadline);

  const ActorLife& life() const { return context_.self(); }

 private:
  void Run();
  void Handle(IncomingCall call);

  const ActorClass& class_;
  ActorContext& context_;
  std::unique_ptr<Actor> actor_;  // Touched by thread_ only, once it runs.
  Mailbox<IncomingCall> mailbox_;
  const std::function<void()> before_destructor_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::optional<absl::Status> started_ ABSL_GUARDED_BY(mutex_);
  std::string stop_reason_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace troupe
