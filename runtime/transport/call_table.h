// SPDX-License-Identifier: Apache-2.0
// CallTable: the calls of this process that have no answer yet. Pure: no clock, no lock, no IO. Whatever takes a call
// out (its reply, its deadline, the end of its stream, the death of its target) is the only one to answer it, so each
// call is answered exactly once.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/actor/call_router.h"
#include "runtime/actor/stream_sink.h"
#include "runtime/base/ids.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/small_pool.h"
#include "runtime/transport/envelope.h"

namespace troupe {

struct CallTableLimits {
  size_t calls_max = 65'536;
  size_t bytes_max =
      (1 << 30) + (256 << 20);  // Of arguments that wait for an answer: the largest, and others beside it.
};

struct OpenCall : SmallPooled {
  uint64_t id = 0;      // Given by Add; grows.
  uint64_t stream = 0;  // Of the connection it was sent on; 0: within the process.
  std::shared_ptr<const CallRoute> route;
  Monotonic deadline;
  size_t bytes = 0;
  ReplyCallback reply;
  std::shared_ptr<const ItemCallback> item;  // Of a stream from another process.
  std::shared_ptr<StreamSink> sink;          // Of a stream within this process.
  // Of a call to another process that may be sent again.
  int retries_left = 0;
  bool acknowledges = false;
  std::string arguments;
  const ActorLife& target() const { return route->target; }
  const std::string& method() const { return route->method; }
  bool streams() const { return item != nullptr || sink != nullptr; }
};

class CallTable {
 public:
  explicit CallTable(CallTableLimits limits = {}) : limits_(limits) {}

  // The call's id. RESOURCE_EXHAUSTED: too many are open; `call` is still the caller's.
  absl::StatusOr<uint64_t> Add(std::unique_ptr<OpenCall>& call);

  // Null when it is not open.
  std::unique_ptr<OpenCall> Take(uint64_t id);
  // A call that was taken and goes on, on another stream, under its id.
  void PutBack(OpenCall call);
  // Null when it is not open. Valid until the next change.
  const OpenCall* Find(uint64_t id) const;
  // No call below it that may be sent again is open, or will be. (Calls that are taken and put back: in between, no
  // lock is let go.)
  uint64_t settled() const { return repeating_.empty() ? next_id_ : *repeating_.begin(); }
  // In the order in which they were made, each of these:
  std::vector<OpenCall> TakeExpired(Monotonic now);
  std::vector<OpenCall> TakeStream(uint64_t stream);
  // Calls to that life or an older one of the same actor.
  std::vector<OpenCall> TakeTarget(const ActorLife& life);
  std::vector<OpenCall> TakeAll();

  // Infinite when nothing is open.
  Monotonic NextDeadline() const;
  size_t size() const { return calls_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  void AddDeadline(Monotonic deadline, uint64_t id);
  void DropStaleDeadlines();
  void PopDeadline() const;
  template <typename Predicate>
  std::vector<OpenCall> TakeIf(Predicate predicate);

  const CallTableLimits limits_;
  uint64_t next_id_ = 1;
  size_t bytes_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<OpenCall>> calls_;
  std::set<uint64_t> repeating_;  // Those that may be sent again.
  // A heap with the soonest first. Most calls end sooner: theirs are found not to be open when they come up, or when
  // the heap is made anew.
  mutable std::vector<std::pair<Monotonic, uint64_t>> deadlines_;
};

}  // namespace troupe
