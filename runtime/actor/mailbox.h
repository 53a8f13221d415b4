// SPDX-License-Identifier: Apache-2.0
// Mailbox: the messages that wait for one actor, in the order they came, bounded in number and in bytes. Has no lock:
// it stands under its actor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace troupe {

struct MailboxLimits {
  size_t messages_max = 1024;   // A caller with more in flight than that should wait for replies.
  size_t bytes_max = 64 << 20;  // Sum of the encoded arguments; a single larger message is let in alone.
};

template <typename Message>
class Mailbox {
 public:
  explicit Mailbox(MailboxLimits limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED: full (says of what; `message` is untouched). UNAVAILABLE: closed.
  absl::Status Push(Message&& message, size_t bytes) {
    if (closed_) return absl::UnavailableError("the actor is stopping");
    if (messages_.size() >= limits_.messages_max) {
      return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(messages_.size()) + " messages");
    }
    if (!messages_.empty() && bytes_ + bytes > limits_.bytes_max) {
      return absl::ResourceExhaustedError("the mailbox is full: " + std::to_string(bytes_) + " of " +
                                          std::to_string(limits_.bytes_max) + " bytes, and " + std::to_string(bytes) +
                                          " more");
    }
    messages_.emplace_back(std::move(message), bytes);
    bytes_ += bytes;
    return absl::OkStatus();
  }

  std::optional<Message> Pop() {
    if (messages_.empty()) return std::nullopt;
    auto [message, bytes] = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= bytes;
    return std::move(message);
  }

  // Takes the first out for which `matches` holds.
  template <typename Predicate>
  std::optional<Message> Remove(Predicate matches) {
    for (auto it = messages_.begin(); it != messages_.end(); ++it) {
      if (!matches(it->first)) continue;
      auto [message, bytes] = std::move(*it);
      messages_.erase(it);
      bytes_ -= bytes;
      return std::move(message);
    }
    return std::nullopt;
  }

  // Takes no more; returns what waited, for its senders to be told. Again: empty.
  std::vector<Message> Close() {
    closed_ = true;
    std::vector<Message> left;
    for (auto& [message, bytes] : messages_) left.push_back(std::move(message));
    messages_.clear();
    bytes_ = 0;
    return left;
  }

  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  const MailboxLimits limits_;
  std::deque<std::pair<Message, size_t>> messages_;
  size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace troupe
