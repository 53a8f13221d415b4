// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/reply_book.h"

#include <algorithm>

namespace troupe {
namespace {

size_t BytesOf(const std::optional<absl::StatusOr<std::string>>& reply) {
  return reply.has_value() && reply->ok() ? (*reply)->size() : 0;
}

}  // namespace

bool ReplyBook::BeginLine(uint64_t caller, uint64_t line, Monotonic now) {
  auto found = callers_.find(caller);
  if (found == callers_.end()) {
    if (callers_.size() >= limits_.callers_max) ForgetCallers(now);
    if (callers_.size() >= limits_.callers_max) return false;
    found = callers_.try_emplace(caller).first;
  }
  ++found->second.lines;
  found->second.newest_line = std::max(found->second.newest_line, line);
  return true;
}

void ReplyBook::EndLine(uint64_t id, Monotonic now) {
  auto found = callers_.find(id);
  if (found == callers_.end() || --found->second.lines > 0) return;
  found->second.away_since = now;
  Expire(now);
  ForgetLate(id, found->second);
}

ReplyBook::Begun ReplyBook::Begin(const RepeatKey& call, Monotonic deadline, Monotonic now, ReplyCallback to) {
  Expire(now);
  auto of = callers_.find(call.caller);
  if (of == callers_.end() || call.line < of->second.newest_line) return {Verdict::kStale, std::nullopt};
  Caller& caller = of->second;
  Settle(call.caller, caller, call.settled);
  auto found = caller.entries.find(call.number);
  if (found != caller.entries.end()) {
    Entry& entry = found->second;
    if (entry.reply.has_value()) return {Verdict::kKnown, entry.reply};
    if (entry.has_run) return {Verdict::kForgotten, std::nullopt};
    entry.to = std::move(to);
    return {Verdict::kWait, std::nullopt};
  }
  if (call.number <= caller.floor) return {Verdict::kForgotten, std::nullopt};
  if (caller.entries.size() >= limits_.unacked_max || bytes_ > limits_.bytes_max) {
    return {Verdict::kRefused, std::nullopt};
  }
  Entry& entry = caller.entries[call.number];
  entry.deadline = deadline;
  entry.to = std::move(to);
  ++size_;
  deadlines_.emplace(deadline, Key{call.caller, call.number});
  return {Verdict::kRun, std::nullopt};
}

ReplyCallback ReplyBook::Finish(const Key& key, const absl::StatusOr<std::string>& reply) {
  auto caller = callers_.find(key.first);
  if (caller == callers_.end()) return nullptr;
  auto found = caller->second.entries.find(key.second);
  if (found == caller->second.entries.end() || found->second.has_run) return nullptr;
  found->second.has_run = true;
  if (!found->second.late) {
    found->second.reply = reply;
    bytes_ += BytesOf(found->second.reply);
  }
  return std::exchange(found->second.to, nullptr);
}

void ReplyBook::Acknowledge(const RepeatKey& call) {
  auto found = callers_.find(call.caller);
  if (found == callers_.end()) return;
  Caller& caller = found->second;
  if (auto entry = caller.entries.find(call.number); entry != caller.entries.end()) Erase(call.caller, caller, entry);
  Settle(call.caller, caller, call.settled);
}

void ReplyBook::Settle(uint64_t id, Caller& caller, uint64_t settled) {
  if (settled == 0 || settled - 1 <= caller.floor) return;
  caller.floor = settled - 1;
  caller.forgot = false;
  while (!caller.entries.empty() && caller.entries.begin()->first < settled) Erase(id, caller, caller.entries.begin());
}

void ReplyBook::Erase(uint64_t id, Caller& caller, Entries::iterator entry) {
  DropReply(entry->second);
  if (!entry->second.late) deadlines_.erase({entry->second.deadline, {id, entry->first}});
  caller.entries.erase(entry);
  --size_;
}

void ReplyBook::DropReply(Entry& entry) {
  bytes_ -= BytesOf(entry.reply);
  entry.reply.reset();
}

void ReplyBook::Expire(Monotonic now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Key key = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    Caller& caller = callers_.at(key.first);
    Entry& entry = caller.entries.at(key.second);
    entry.late = true;
    DropReply(entry);
    if (caller.lines == 0) ForgetLate(key.first, caller);
  }
}

void ReplyBook::ForgetLate(uint64_t id, Caller& caller) {
  for (auto it = caller.entries.begin(); it != caller.entries.end();) {
    auto next = std::next(it);
    if (it->second.late) {
      caller.floor = std::max(caller.floor, it->first);
      caller.forgot = true;
      Erase(id, caller, it);
    }
    it = next;
  }
}

void ReplyBook::ForgetCallers(Monotonic now) {
  std::erase_if(callers_, [&](const auto& one) {
    const Caller& caller = one.second;
    bool away = caller.lines == 0 && caller.entries.empty();
    return away && (!caller.forgot || now - caller.away_since >= limits_.away_min);
  });
}

}  // namespace troupe
