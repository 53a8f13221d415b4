// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/mailbox.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/check.h"

namespace troupe::internal {
namespace {

// Of the places of a mailbox, the part that may be free and not yet given back.
constexpr uint64_t kGiveBackParts = 64;

}  // namespace

void MessageList::Add(Message* message) {
  message->next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = message;
  last_ = message;
}

Message* MessageList::Take() {
  Message* message = first_;
  if (message == nullptr) return nullptr;
  first_ = message->next_;
  if (first_ == nullptr) last_ = nullptr;
  return message;
}

Message* MessageList::Remove(const CallKey& key) {
  Message* before = nullptr;
  for (Message* message = first_; message != nullptr; before = message, message = message->next_) {
    if (message->key() != key) continue;
    (before == nullptr ? first_ : before->next_) = message->next_;
    if (message == last_) last_ = before;
    return message;
  }
  return nullptr;
}

Mailbox::~Mailbox() {
  MutexLock lock(mutex_);
  TROUPE_CHECK(Newest(head_) == nullptr && messages_.empty() && tasks_.empty(), "a mailbox is emptied before it goes");
}

void Mailbox::SetLimits(const MailboxLimits& limits) {
  limits_ = limits;
  limits_.messages_max = std::min<uint64_t>(limits_.messages_max, uint64_t{1} << 20);
  limits_.bytes_max = std::min<uint64_t>(limits_.bytes_max, kBytes / 2);
}

absl::Status Mailbox::Admit(size_t bytes) {
  uint64_t before = load_.fetch_add(kOne + bytes, std::memory_order_relaxed);
  uint64_t count = before / kOne, held = before & kBytes;
  if (count < limits_.messages_max && (count == 0 || held + bytes <= limits_.bytes_max)) return absl::OkStatus();
  load_.fetch_sub(kOne + bytes, std::memory_order_relaxed);
  if (count >= limits_.messages_max) {
    return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(count) + " messages");
  }
  return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(held) + " of " +
                                      std::to_string(limits_.bytes_max) + " bytes, and " + std::to_string(bytes) +
                                      " more");
}

absl::Status Mailbox::Push(Message* message, size_t bytes, bool& wakes) {
  if (absl::Status admitted = Admit(bytes); !admitted.ok()) {
    bool closed = (head_.load(std::memory_order_relaxed) & kClosed) != 0;
    return closed ? absl::UnavailableError("the actor is stopping") : admitted;
  }
  message->bytes_ = bytes;
  if (PushOn(message, kClosed, wakes)) return absl::OkStatus();
  load_.fetch_sub(kOne + bytes, std::memory_order_relaxed);
  return absl::UnavailableError("the actor is stopping");
}

bool Mailbox::PushTask(Message* task, bool& wakes) {
  task->is_task_ = true;
  if (!PushOn(task, kOver, wakes)) return false;
  has_task_.store(true, std::memory_order_relaxed);
  return true;
}

bool Mailbox::PushOn(Message* message, uintptr_t refused, bool& wakes) {
  uintptr_t head = head_.load(std::memory_order_relaxed);
  uintptr_t next = 0;
  do {
    if ((head & refused) != 0) return false;
    message->next_ = Newest(head);
    next = reinterpret_cast<uintptr_t>(message) | (head & (kClosed | kOver));
    // Acquires: who ends the rest goes on after the turn that began it.
  } while (!head_.compare_exchange_weak(head, next, std::memory_order_acq_rel, std::memory_order_relaxed));
  wakes = (head & kResting) != 0;
  return true;
}

bool Mailbox::Sort() {
  if (has_task_.load(std::memory_order_relaxed)) has_task_.store(false, std::memory_order_relaxed);
  uintptr_t head = head_.load(std::memory_order_relaxed);
  do {
    if (Newest(head) == nullptr) return false;
  } while (!head_.compare_exchange_weak(head, head & (kClosed | kOver), std::memory_order_acquire,
                                        std::memory_order_relaxed));
  Message* oldest = nullptr;
  for (Message* message = Newest(head); message != nullptr;) {
    Message* older = message->next_;
    message->next_ = oldest;
    oldest = message;
    message = older;
  }
  while (oldest != nullptr) {
    Message* newer = oldest->next_;
    (oldest->is_task_ ? tasks_ : messages_).Add(oldest);
    oldest = newer;
  }
  return true;
}

void Mailbox::GiveBack(uint64_t load, bool all) {
  to_give_back_ += load;
  if (!all && to_give_back_ / kOne * kGiveBackParts < limits_.messages_max) return;
  load_.fetch_sub(to_give_back_, std::memory_order_relaxed);
  to_give_back_ = 0;
}

Message* Mailbox::Pop(bool messages) {
  MutexLock lock(mutex_);
  // As long as some are left, the senders' memory is only looked at for a task.
  bool look = messages_.empty() || !messages || has_task_.load(std::memory_order_relaxed);
  bool sorted = look && Sort();
  if (Message* task = tasks_.Take()) return task;
  Message* message = messages ? messages_.Take() : nullptr;
  if (message != nullptr) GiveBack(kOne + message->bytes_, sorted || messages_.empty());
  return message;
}

bool Mailbox::Rest(bool messages) {
  MutexLock lock(mutex_);
  if (!tasks_.empty() || (messages && !messages_.empty())) return false;
  uintptr_t head = head_.load(std::memory_order_relaxed);
  do {
    if (Newest(head) != nullptr) return false;
  } while (!head_.compare_exchange_weak(head, head | kResting, std::memory_order_release, std::memory_order_relaxed));
  return true;
}

Message* Mailbox::Remove(const CallKey& key) {
  MutexLock lock(mutex_);
  Sort();
  Message* message = messages_.Remove(key);
  if (message != nullptr) GiveBack(kOne + message->bytes_, true);
  return message;
}

MessageList Mailbox::Close() {
  MutexLock lock(mutex_);
  head_.fetch_or(kClosed, std::memory_order_acq_rel);
  Sort();
  MessageList left;
  std::swap(left, messages_);
  return left;
}

MessageList Mailbox::End() {
  MessageList left = Close();
  MutexLock lock(mutex_);
  head_.fetch_or(kOver, std::memory_order_acq_rel);
  Sort();
  while (Message* task = tasks_.Take()) left.Add(task);
  return left;
}

}  // namespace troupe::internal
