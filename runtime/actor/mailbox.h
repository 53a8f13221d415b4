// SPDX-License-Identifier: Apache-2.0
// Mailbox: the messages that wait for one actor, in the order they came, bounded in number and in bytes. Any thread may
// push; one thread pops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"

namespace troupe {

struct MailboxLimits {
  size_t messages_max = 1024;   // A caller with more in flight than that should wait for replies.
  size_t bytes_max = 64 << 20;  // Sum of the encoded arguments.
};

template <typename Message>
class Mailbox {
 public:
  explicit Mailbox(MailboxLimits limits) : limits_(limits) {}

  // Any thread. RESOURCE_EXHAUSTED: full (says of what; `message` is untouched). UNAVAILABLE: closed.
  absl::Status Push(Message&& message, size_t bytes) {
    MutexLock lock(mutex_);
    if (closed_) return absl::UnavailableError("the actor is stopping");
    if (messages_.size() >= limits_.messages_max) {
      return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(messages_.size()) + " messages");
    }
    if (bytes_ + bytes > limits_.bytes_max) {
      return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(bytes_) + " of " +
                                          std::to_string(limits_.bytes_max) + " bytes, and " + std::to_string(bytes) +
                                          " more");
    }
    messages_.emplace_back(std::move(message), bytes);
    bytes_ += bytes;
    if (waiting_) pushed_.NotifyOne();
    return absl::OkStatus();
  }

  // The actor's thread only. Empty: closed, or nothing came until the deadline.
  std::optional<Message> Pop(Monotonic deadline) {
    MutexLock lock(mutex_);
    waiting_ = true;
    pushed_.WaitUntil(lock, deadline, [this] { return closed_ || !messages_.empty(); });
    waiting_ = false;
    if (messages_.empty()) return std::nullopt;
    auto [message, bytes] = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= bytes;
    return std::move(message);
  }

  // Takes no more; returns what waited, for its senders to be told. Any thread; again: empty.
  std::vector<Message> Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    std::vector<Message> left;
    for (auto& [message, bytes] : messages_) left.push_back(std::move(message));
    messages_.clear();
    bytes_ = 0;
    pushed_.NotifyAll();
    return left;
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return messages_.size();
  }

 private:
  const MailboxLimits limits_;
  mutable Mutex mutex_;
  ConditionVariable pushed_;
  std::deque<std::pair<Message, size_t>> messages_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // Nobody is woken who is awake.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace troupe
