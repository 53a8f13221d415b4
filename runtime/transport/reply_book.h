// SPDX-License-Identifier: Apache-2.0
// ReplyBook: what a receiver remembers of calls that may be repeated, so that each has one effect: whether it has run,
// and its reply. Pure: no clock, no lock (its owner guards it), no IO.
//
//   BeginLine -> Begin -> kRun: run the call -> Finish: send the reply -> Acknowledge: forgotten -> EndLine
//
// ONCE-1: a call of a caller is run (kRun) once at most, whatever is lost, comes twice or comes late. A call that has
// run is in the book until one of these says that no more of it can come:
//   - its caller acknowledged it, or a later message of it says that all before that number are settled;
//   - no line of the caller is left, and the call's time is over. Then all up to its number count as run (`floor`):
//     what comes of them yet is refused as "may have run".
// What an older line of a caller brings is dropped: it was sent again on the newer one, or answered.
//
// Bounds: calls that a caller has not acknowledged, bytes of replies, callers. The reply of a call whose time is over
// is dropped at once; that it has run is not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/actor/call_router.h"
#include "runtime/base/monotonic.h"
#include "runtime/transport/envelope.h"

namespace troupe {

struct ReplyBookLimits {
  size_t unacked_max = 1024;    // Calls of one caller that it has not acknowledged.
  size_t bytes_max = 64 << 20;  // Of replies, of all callers. Counted when they are there: over it no call begins.
  // Processes that have repeated calls: a few words are kept of those that are gone, until their place is needed.
  size_t callers_max = 16'384;
  // For so long those are kept at least whose calls were not all acknowledged: nothing of a call comes twice the
  // longest timeout after its caller's last line.
  absl::Duration away_min = 2 * kCallTimeoutMax;
};

class ReplyBook {
 public:
  using Key = std::pair<uint64_t, uint64_t>;  // The caller, and its number of the call.
  enum class Verdict {
    kRun,        // It is new: run it, then Finish.
    kWait,       // It runs; its reply goes to where it was asked for last.
    kKnown,      // It has run: the reply is there.
    kRefused,    // The caller has too many that it did not acknowledge.
    kForgotten,  // It may have run; its reply is not there any more.
    kStale,      // It came on a line that has a newer one: nobody waits for an answer on it.
  };
  struct Begun {
    Verdict verdict = Verdict::kRefused;
    std::optional<absl::StatusOr<std::string>> reply;  // With kKnown.
  };

  explicit ReplyBook(ReplyBookLimits limits = {}) : limits_(limits) {}

  // A connection of that caller, before its first call. False: there are too many callers. EndLine follows, after the
  // last of its calls.
  bool BeginLine(uint64_t caller, uint64_t line, Monotonic now);
  void EndLine(uint64_t caller, Monotonic now);

  // A call, or a repeat of it, on a line that was begun. `to` is where its reply is to go: kept with kRun and kWait
  // (there in place of the earlier one), not used otherwise. `deadline`, of the first, is when its reply is dropped.
  // The reply with kKnown is a copy.
  Begun Begin(const RepeatKey& call, Monotonic deadline, Monotonic now, ReplyCallback to);

  // The call has run; keeps a copy of the reply. Where it goes, for the owner to call outside its lock; nothing if the
  // call was forgotten or has finished before.
  ReplyCallback Finish(const Key& key, const absl::StatusOr<std::string>& reply);

  // The caller has the reply, or wants it no more: forgets the call. Nothing happens for one that is not known.
  void Acknowledge(const RepeatKey& call);

  // Calls that run or wait to be acknowledged, and what their replies hold.
  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }
  size_t callers() const { return callers_.size(); }

 private:
  struct Entry {
    Monotonic deadline;
    ReplyCallback to;
    bool has_run = false;
    bool late = false;
    std::optional<absl::StatusOr<std::string>> reply;
  };
  using Entries = std::map<uint64_t, Entry>;  // By number.
  struct Caller {
    uint64_t newest_line = 0;
    size_t lines = 0;        // That are open.
    uint64_t floor = 0;      // Calls up to it that are not among `entries` are not to run.
    bool forgot = false;     // The floor is that of a call that was not acknowledged.
    Monotonic away_since{};  // While no line is open.
    Entries entries;
  };

  // All below that number are never sent again.
  void Settle(uint64_t id, Caller& caller, uint64_t settled);
  void Erase(uint64_t id, Caller& caller, Entries::iterator entry);
  void DropReply(Entry& entry);
  // Of a caller without a line: those whose time is over.
  void ForgetLate(uint64_t id, Caller& caller);
  void Expire(Monotonic now);
  void ForgetCallers(Monotonic now);

  const ReplyBookLimits limits_;
  size_t size_ = 0, bytes_ = 0;
  std::unordered_map<uint64_t, Caller> callers_;
  std::set<std::pair<Monotonic, Key>> deadlines_;  // Of entries that are not late.
};

}  // namespace troupe
