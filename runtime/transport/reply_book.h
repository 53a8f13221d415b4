// SPDX-License-Identifier: Apache-2.0
// ReplyBook: what a receiver remembers of calls that may be repeated, so that each has one effect: whether it runs, and
// its reply until the caller has acknowledged it. Pure: no clock, no lock (its owner guards it), no IO. Bounded a
// caller; an entry also goes when its call's deadline is over, since nobody repeats it then.
//
//   Begin -> kRun: run the call -> Finish: send the reply -> Acknowledge: forgotten
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/actor/call_router.h"
#include "runtime/base/monotonic.h"

namespace troupe {

struct ReplyBookLimits {
  size_t unacked_max = 1024;    // Calls of one caller that it has not acknowledged.
  size_t bytes_max = 64 << 20;  // Of replies, of all callers. Counted when they are there: over it no call begins.
};

class ReplyBook {
 public:
  using Key = std::pair<uint64_t, uint64_t>;  // The caller, and its number of the call.
  enum class Verdict {
    kRun,      // It is new: run it, then Finish.
    kWait,     // It runs; its reply goes to where it was asked for last.
    kKnown,    // It has run: the reply is there.
    kRefused,  // The caller has too many that it did not acknowledge.
  };
  struct Begun {
    Verdict verdict = Verdict::kRefused;
    std::optional<absl::StatusOr<std::string>> reply;  // With kKnown.
  };

  explicit ReplyBook(ReplyBookLimits limits = {}) : limits_(limits) {}

  // A call, or a repeat of it. `to` is where its reply is to go: kept with kRun and kWait (there in place of the
  // earlier one), not used otherwise. `deadline` is the first one's. The reply with kKnown is a copy.
  Begun Begin(const Key& key, Monotonic deadline, Monotonic now, ReplyCallback to) {
    Expire(now);
    auto found = entries_.find(key);
    if (found != entries_.end()) {
      if (found->second.reply.has_value()) return {Verdict::kKnown, found->second.reply};
      found->second.to = std::move(to);
      return {Verdict::kWait, std::nullopt};
    }
    size_t& unacked = unacked_[key.first];
    if (unacked >= limits_.unacked_max || bytes_ > limits_.bytes_max) {
      if (unacked == 0) unacked_.erase(key.first);
      return {Verdict::kRefused, std::nullopt};
    }
    ++unacked;
    entries_[key] = {deadline, std::move(to), std::nullopt};
    deadlines_.emplace(deadline, key);
    return {Verdict::kRun, std::nullopt};
  }

  // The call has run; keeps a copy of the reply. Where it goes, for the owner to call outside its lock; nothing if the
  // call was forgotten or has finished before.
  ReplyCallback Finish(const Key& key, const absl::StatusOr<std::string>& reply) {
    auto found = entries_.find(key);
    if (found == entries_.end() || found->second.reply.has_value()) return nullptr;
    found->second.reply = reply;
    bytes_ += BytesOf(found->second);
    return std::exchange(found->second.to, nullptr);
  }

  // The caller has the reply: forgets the call. Nothing happens for one that is not known.
  void Acknowledge(const Key& key) {
    auto found = entries_.find(key);
    if (found == entries_.end()) return;
    bytes_ -= BytesOf(found->second);
    deadlines_.erase({found->second.deadline, key});
    entries_.erase(found);
    auto unacked = unacked_.find(key.first);
    if (--unacked->second == 0) unacked_.erase(unacked);
  }

  // Calls that run or wait to be acknowledged, and what their replies hold.
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Monotonic deadline;
    ReplyCallback to;
    std::optional<absl::StatusOr<std::string>> reply;
  };

  static size_t BytesOf(const Entry& entry) {
    return entry.reply.has_value() && entry.reply->ok() ? (*entry.reply)->size() : 0;
  }
  void Expire(Monotonic now) {
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      const Key key = deadlines_.begin()->second;  // Acknowledge erases where it lies.
      Acknowledge(key);
    }
  }

  const ReplyBookLimits limits_;
  size_t bytes_ = 0;
  std::map<Key, Entry> entries_;
  std::map<uint64_t, size_t> unacked_;
  std::set<std::pair<Monotonic, Key>> deadlines_;
};

}  // namespace troupe
