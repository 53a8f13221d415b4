// SPDX-License-Identifier: Apache-2.0
// Reservations and preemption, as pure functions of who holds what. A reservation says where a gang that does not fit
// now will run, after which jobs have ended: so jobs behind it may use only what does not delay it. Preemption says
// which jobs have to give way so that it fits now.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/free_capacity.h"
#include "scheduler/core/placement.h"

namespace troupe::scheduler {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// A victim that turns out not to be needed is spared; beyond so many the first choice stands.
inline constexpr size_t kVictimsPrunedMax = 64;

// A job that holds places.
struct Holder {
  JobId job;
  int64_t end_ms = kNever;  // When it is expected to give them back; cluster time.
  struct Held {
    NodeId node;
    Amount need;
    std::vector<int> devices;
  };
  std::vector<Held> held;
};

struct Reservation {
  JobId job;
  int64_t start_ms = kNever;  // The last of those it waits for is expected to have ended; kNever: not known.
  std::set<JobId> waits_for;
  std::map<NodeId, std::vector<Holder::Held>> places;  // What it will take, by node.
};

// The earliest place for all `slots`, when holders end in the order given. nullopt: not even when all have ended.
// `nodes`: what is free now.
std::optional<Reservation> Reserve(const JobId& job, const std::vector<Slot>& slots,
                                   const std::vector<NodeCapacity>& nodes, const std::vector<Holder>& by_end);

// The first of `candidates` that must give way so that all slots fit, and no more of them than that needs; empty when
// even all of them do not help, or none has to. `nodes`: what is free, or will be without them.
std::vector<JobId> ChooseVictims(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                                 const std::vector<Holder>& candidates);

void GiveBackAll(const Holder& holder, FreeCapacity& nodes);
// What is held is taken of the node, also where it does not fit.
void AddHeld(const Holder::Held& held, NodeCapacity& node);

// What a job that may run for long can use of a node: what is free now and will not be needed. `later`: the node when
// those that the reservation waits for have ended, without the reserved places.
NodeCapacity Both(const NodeCapacity& now, const NodeCapacity& later);

}  // namespace troupe::scheduler
