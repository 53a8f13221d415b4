// SPDX-License-Identifier: Apache-2.0
// NodeHolds: which objects of one other node this node holds, and what of that the other one has still to be told.
// Pure.
//
// NHOLD-1: what is held here has been told in the last kPeriod, or is in the next request. NHOLD-2: requests are made
// one after the other, so that a hold is never overtaken by the release before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/object/object_id.h"

namespace troupe {

class NodeHolds {
 public:
  // Also without a change: a home that was restarted has to hear of them before it gives anything up.
  static constexpr absl::Duration kPeriod = absl::Seconds(1);
  static constexpr size_t kNamesMax = 1024;  // In one request.

  // Harmless when it is held. True: its home was told of it before.
  bool Add(const ObjectId& id, int64_t bytes);
  void Drop(const ObjectId& id);

  struct Request {
    bool all = false;
    std::vector<std::pair<ObjectId, int64_t>> add;  // And bytes.
    std::vector<ObjectId> drop;
  };
  // The next request, when it is time. After it one of the two below.
  std::optional<Request> Next(Monotonic now);
  // The home has taken it; returns what it was told of first. `known`: of the session.
  std::vector<ObjectId> Answered(bool known, Monotonic now);
  void Failed(Monotonic now);

  // Nothing is held, and nothing is to be said. What a home did not hear it forgets with its lease.
  bool idle() const { return !asking_ && held_.empty() && dropped_.empty(); }

 private:
  void SayAll();

  struct Held {
    int64_t bytes = 0;
    bool told = false;
  };
  std::map<ObjectId, Held> held_;
  std::set<ObjectId> added_;
  std::set<ObjectId> dropped_;
  Request asked_;
  bool all_ = true;  // The home knows nothing, or not for sure what.
  bool asking_ = false;
  bool failed_ = false;
  Monotonic at_;  // Before it nothing is said that is not new, or nothing at all after a failure.
};

}  // namespace troupe
