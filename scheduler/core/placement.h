// SPDX-License-Identifier: Apache-2.0
// Placement: which node and devices each slot gets, as a pure function of what nodes have left. All slots or none.
//
// A slot lies on one node; whole devices are granted whole, a share lies on one device (0.5 free on each of two devices
// is not 1.0 and not 0.75). Slots are tried largest first on the fullest node that fits; when that fails, proofs that
// cost little and, on few nodes, a search with a bounded number of steps decide, so that "cannot fit" is a proof or is
// not said.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/free_capacity.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {

struct SlotPlacement {
  int slot = 0;  // Index in the slots asked for.
  NodeId node;
  std::vector<int> devices;  // By number on the node.
};

// A slot of the job that stays where it is.
struct KeptSlot {
  const Slot* slot = nullptr;
  NodeId node;
  std::vector<int> devices;
};

enum class PlacementVerdict {
  kPlaced,
  kImpossible,  // Proven for these nodes.
  kNotFound,    // The search gave up; it may be possible.
};

struct PlacementResult {
  PlacementVerdict verdict = PlacementVerdict::kPlaced;
  std::vector<SlotPlacement> placements;  // In the order of the slots; empty unless kPlaced.
  std::string reason;  // Why not: what asks for what, and the nearest fit. A sentence without a stop.
};

// Finds a place for every slot and takes it; takes nothing unless all have one. Equal inputs give equal results.
// `kept`: the rest of the job, which matters where roles have rules.
PlacementResult PlaceAndTake(const std::vector<Slot>& slots, FreeCapacity& nodes,
                             const std::vector<KeptSlot>& kept = {});
// The same, but `nodes` is as before when it returns.
PlacementResult Place(const std::vector<Slot>& slots, FreeCapacity& nodes, const std::vector<KeptSlot>& kept = {});
// On a snapshot of the nodes, in any order.
PlacementResult Place(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                      const std::vector<KeptSlot>& kept = {});

}  // namespace troupe::scheduler
