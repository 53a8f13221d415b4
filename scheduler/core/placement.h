// SPDX-License-Identifier: Apache-2.0
// Placement: which node and devices each slot gets, as a pure function of a snapshot of the nodes. All slots or none.
//
// A slot lies on one node; whole devices are granted whole, a share lies on one device (0.5 free on each of two devices
// is not 1.0 and not 0.75). Slots are tried largest first on the fullest node that fits; when that fails, a search
// with a bounded number of steps decides, so that "cannot fit" is a proof or is not said.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {

// What a node has and what of it is taken.
struct NodeCapacity {
  NodeId node;
  Amount total;  // device_shares is 0.
  int64_t used_milli_cpus = 0;
  int64_t used_memory_bytes = 0;
  std::vector<int32_t> device_used;  // Thousandths, by device; its size is total.devices.
};

struct SlotPlacement {
  int slot = 0;  // Index in the slots asked for.
  NodeId node;
  std::vector<int> devices;  // By number on the node.
};

enum class PlacementVerdict {
  kPlaced,
  kImpossible,  // Proven for this snapshot.
  kNotFound,    // The search gave up; it may be possible.
};

struct PlacementResult {
  PlacementVerdict verdict = PlacementVerdict::kPlaced;
  std::vector<SlotPlacement> placements;  // In the order of the slots; empty unless kPlaced.
  std::string reason;  // Why not: what asks for what, and the nearest fit. A sentence without a stop.
};

// Finds a place for every slot. `nodes` need no order; equal inputs give equal results.
PlacementResult Place(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes);

// Whether one slot fits; fills the devices it would get.
bool FitsOn(const Amount& need, const NodeCapacity& node, std::vector<int>* devices);

// Takes or gives back what `placement` holds. Requires: it fits, or was taken.
void Take(const Amount& need, const std::vector<int>& devices, NodeCapacity& node);
void GiveBack(const Amount& need, const std::vector<int>& devices, NodeCapacity& node);

}  // namespace troupe::scheduler
