// SPDX-License-Identifier: Apache-2.0
// Message: one thing for an actor to do in its turn: a call, a one-way message, or what a task of it goes on with.
// Internal to the mailbox, refs and cells.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/ids.h"

namespace troupe {

class Actor;

// Which call it is, for its cancellation: who delivered it, and its number there.
struct CallKey {
  const void* deliverer = nullptr;
  uint64_t id = 0;
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

namespace internal {

class Mailbox;
class Strand;

// Owned by the mailbox that it is in; ended by exactly one of Run, Refuse and Drop, which free what it holds.
class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // In the turn of `actor`, whose strand is the current one.
  virtual void Run(Actor& actor, Strand& strand) = 0;
  // Any thread. The actor stops before it ran; who waits for an answer is told.
  virtual void Refuse(const ActorLife& life) = 0;
  // Any thread. Nobody wants it any more.
  virtual void Drop() = 0;
  virtual CallKey key() const { return {}; }

 protected:
  ~Message() = default;

 private:
  friend class Mailbox;
  friend class MessageList;
  Message* next_ = nullptr;
  size_t bytes_ = 0;
  bool is_task_ = false;
};

}  // namespace internal
}  // namespace troupe
