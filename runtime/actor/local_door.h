// SPDX-License-Identifier: Apache-2.0
// LocalDoor: the address of one life of an actor of this process, and the mailbox behind it. Refs share it with the
// actor, and what they hold after its end is no more than that: the mailbox is closed then.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/local_calls.h"
#include "runtime/actor/mailbox.h"
#include "runtime/actor/strand.h"

namespace troupe::internal {

// What a message costs beside its arguments.
inline constexpr size_t kMessageOverheadBytes = 128;

struct LocalDoor : ActorAddress {
  // `calls`: of the process; null in tests without calls.
  LocalDoor(ActorAddress address, std::shared_ptr<LocalCalls> local_calls)
      : ActorAddress(std::move(address)), calls(std::move(local_calls)) {}
  ~LocalDoor() {
    Refuse(mailbox.End());  // Of an actor that was never begun.
  }

  // Any thread. Puts the message in and sees to it that a turn comes. Errors as of Mailbox::Push, and CALL_TOO_LARGE.
  absl::Status Push(Message* message, size_t argument_bytes) {
    if (calls != nullptr && argument_bytes > calls->payload_bytes_max()) return TooLarge(argument_bytes);
    bool wakes = false;
    absl::Status pushed = mailbox.Push(message, kMessageOverheadBytes + argument_bytes, wakes);
    if (wakes) strand->Wake();
    return pushed;
  }
  // What the caller is told when Push has failed. Of a closed mailbox routers know more.
  absl::Status NotTaken(const absl::Status& why) const {
    if (CallErrorKindOf(why) == v1::CallError::CALL_TOO_LARGE) return why;
    auto kind = absl::IsResourceExhausted(why) ? v1::CallError::CALL_OVERLOADED : v1::CallError::CALL_UNAVAILABLE;
    return CallErrorStatus(kind, life.ToString() + ": " + std::string(why.message()));
  }
  // Any thread. Closes the mailbox and answers what waited.
  void Shut() { Refuse(mailbox.Close()); }
  void Refuse(MessageList left) const {
    while (Message* message = left.Take()) message->Refuse(life);
  }

  Mailbox mailbox;
  const std::shared_ptr<LocalCalls> calls;
  // Set before the first message; who ends the mailbox's rest may use the strand: the actor cannot end before its turn.
  Strand* strand = nullptr;
  const void* actor_class = nullptr;  // As of ClassTag.

 private:
  absl::Status TooLarge(size_t bytes) const {
    return CallErrorStatus(v1::CallError::CALL_TOO_LARGE, "the arguments have " + std::to_string(bytes) +
                                                              " bytes, more than the " +
                                                              std::to_string(calls->payload_bytes_max()) + " allowed");
  }
};

}  // namespace troupe::internal
