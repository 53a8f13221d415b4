// SPDX-License-Identifier: Apache-2.0
// Mailbox: what waits for one actor, in the order it came: messages, bounded in number and in bytes, and tasks of the
// actor's own, which are few and go before the messages.
//
// Senders push onto a stack with one compare-and-swap; who takes things out turns it round into lists that stand under
// a lock which senders never take. An empty mailbox is at rest when its actor has no turn: the sender that ends the
// rest is told, and wakes the actor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/actor/message.h"
#include "runtime/base/mutex.h"

namespace troupe {

struct MailboxLimits {
  size_t messages_max = 4096;   // A caller with more in flight than that should wait for replies.
  size_t bytes_max = 64 << 20;  // Sum of the arguments' bytes; a single larger message is let in alone.
};

namespace internal {

// First in, first out.
class MessageList {
 public:
  bool empty() const { return first_ == nullptr; }
  void Add(Message* message);
  // Null: it is empty.
  Message* Take();
  // Takes out the first with that key; null: there is none.
  Message* Remove(const CallKey& key);

 private:
  Message* first_ = nullptr;
  Message* last_ = nullptr;
};

class Mailbox {
 public:
  Mailbox() = default;
  // It is empty.
  ~Mailbox();

  // Before the first Push.
  void SetLimits(const MailboxLimits& limits);

  // Any thread. OK: the mailbox has the message; `wakes`: it was at rest, and the caller posts a turn. Otherwise the
  // message stays the caller's. RESOURCE_EXHAUSTED: full (says of what). UNAVAILABLE: closed.
  absl::Status Push(Message* message, size_t bytes, bool& wakes);
  // The same for a task, which closing does not keep out. False: all is over.
  bool PushTask(Message* task, bool& wakes);

  // Any thread. Takes out the message with that key; null: it is not here.
  Message* Remove(const CallKey& key);
  // Any thread. Takes no more messages; returns those that waited. Again: empty.
  MessageList Close();
  // Takes nothing any more; returns what is left.
  MessageList End();

  // In the actor's turn. The first task; if there is none and `messages`: the first message. Null: nothing.
  Message* Pop(bool messages);
  // In the actor's turn, when Pop(messages) gave nothing. False: something has come meanwhile.
  bool Rest(bool messages);

  // For tests: those that count against the limits.
  size_t size() const { return load_.load(std::memory_order_relaxed) / kOne; }

 private:
  // head_: the newest message, and these.
  static constexpr uintptr_t kClosed = 1, kOver = 2, kResting = 4, kFlags = kClosed | kOver | kResting;
  // load_: how many messages, times kOne, and their bytes.
  static constexpr uint64_t kOne = uint64_t{1} << 40, kBytes = kOne - 1;

  static Message* Newest(uintptr_t head) { return reinterpret_cast<Message*>(head & ~kFlags); }
  absl::Status Admit(size_t bytes);
  // False: one of `refused` is set.
  bool PushOn(Message* message, uintptr_t refused, bool& wakes);
  // From the stack into the lists. False: there was nothing.
  bool Sort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The room of those that were taken out is given back by parts, so that senders seldom wait for that memory.
  void GiveBack(uint64_t load, bool all) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<uintptr_t> head_{0};
  std::atomic<uint64_t> load_{0};
  MailboxLimits limits_;
  // What senders write, above, and what the one that takes things out does share no cache line.
  [[maybe_unused]] std::byte apart_[64 - sizeof(limits_)];
  std::atomic<bool> has_task_{false};  // On the stack; said after the push, so that it may come late.
  Mutex mutex_;
  MessageList tasks_ ABSL_GUARDED_BY(mutex_);
  MessageList messages_ ABSL_GUARDED_BY(mutex_);
  uint64_t to_give_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace internal
}  // namespace troupe
