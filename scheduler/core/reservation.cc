// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/reservation.h"

#include <algorithm>

namespace troupe::scheduler {
namespace {

// Where the slots go when the first `count` holders have given back what they hold, without those of `but`.
PlacementResult PlaceWithout(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                             const std::vector<Holder>& holders, size_t count, const std::set<size_t>& but = {}) {
  FreeCapacity free(nodes);
  for (size_t i = 0; i < count; ++i) {
    if (!but.contains(i)) GiveBackAll(holders[i], free);
  }
  return PlaceAndTake(slots, free);
}

// The smallest count of holders whose places are enough; more than there are: none is. Doubles, then bisects: what
// fits with fewer holders fits with more.
size_t FewestNeeded(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                    const std::vector<Holder>& holders, PlacementResult& placed) {
  size_t too_few = 0;
  size_t enough = holders.size() + 1;
  for (size_t count = 1; too_few < holders.size(); count = std::min(2 * count, holders.size())) {
    PlacementResult result = PlaceWithout(slots, nodes, holders, count);
    if (result.verdict == PlacementVerdict::kPlaced) {
      enough = count;
      placed = std::move(result);
      break;
    }
    too_few = count;
  }
  while (enough <= holders.size() && too_few + 1 < enough) {
    size_t middle = too_few + (enough - too_few) / 2;
    PlacementResult result = PlaceWithout(slots, nodes, holders, middle);
    if (result.verdict == PlacementVerdict::kPlaced) {
      enough = middle;
      placed = std::move(result);
    } else {
      too_few = middle;
    }
  }
  return enough;
}

}  // namespace

std::optional<Reservation> Reserve(const JobId& job, const std::vector<Slot>& slots,
                                   const std::vector<NodeCapacity>& nodes, const std::vector<Holder>& by_end) {
  PlacementResult placed;
  size_t count = FewestNeeded(slots, nodes, by_end, placed);
  if (count > by_end.size()) return std::nullopt;
  Reservation reservation;
  reservation.job = job;
  reservation.start_ms = by_end[count - 1].end_ms;
  for (size_t i = 0; i < count; ++i) reservation.waits_for.insert(by_end[i].job);
  for (SlotPlacement& p : placed.placements) {
    reservation.places[p.node].push_back({p.node, slots[static_cast<size_t>(p.slot)].need, std::move(p.devices)});
  }
  return reservation;
}

std::vector<JobId> ChooseVictims(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                                 const std::vector<Holder>& candidates) {
  PlacementResult placed;
  if (PlaceWithout(slots, nodes, candidates, 0).verdict == PlacementVerdict::kPlaced) return {};
  const size_t count = FewestNeeded(slots, nodes, candidates, placed);
  if (count > candidates.size()) return {};
  std::set<size_t> spared;
  for (size_t i = 0; i + 1 < count && i < kVictimsPrunedMax; ++i) {
    // The last ones are those that are best kept.
    size_t one = count - 2 - i;
    spared.insert(one);
    if (PlaceWithout(slots, nodes, candidates, count, spared).verdict != PlacementVerdict::kPlaced) spared.erase(one);
  }
  std::vector<JobId> victims;
  for (size_t i = 0; i < count; ++i) {
    if (!spared.contains(i)) victims.push_back(candidates[i].job);
  }
  return victims;
}

void GiveBackAll(const Holder& holder, FreeCapacity& nodes) {
  std::set<NodeId> left;
  for (const Holder::Held& held : holder.held) {
    const NodeCapacity* node = nodes.Find(held.node);
    if (node == nullptr) continue;  // Not usable: what it held there helps nobody.
    NodeCapacity freed = *node;
    GiveBack(held.need, held.devices, freed);
    if (left.insert(held.node).second && --freed.jobs == 0) freed.taken_alone = false;
    nodes.Set(std::move(freed));
  }
}

void AddHeld(const Holder::Held& held, NodeCapacity& node) {
  node.used_milli_cpus += held.need.milli_cpus;
  node.used_memory_bytes += held.need.memory_bytes;
  for (int device : held.devices) {
    if (static_cast<size_t>(device) >= node.device_used.size()) continue;
    int32_t& used = node.device_used[static_cast<size_t>(device)];
    used = std::min(kSharesPerDevice, used + (held.need.devices > 0 ? kSharesPerDevice : held.need.device_shares));
    if (held.need.device_memory_bytes > 0) node.device_memory_used[device] += held.need.device_memory_bytes;
  }
  for (const auto& [name, amount] : held.need.custom) node.custom_used[name] += amount;
}

NodeCapacity Both(const NodeCapacity& now, const NodeCapacity& later) {
  NodeCapacity both = now;
  both.used_milli_cpus = std::max(now.used_milli_cpus, later.used_milli_cpus);
  both.used_memory_bytes = std::max(now.used_memory_bytes, later.used_memory_bytes);
  for (size_t i = 0; i < both.device_used.size() && i < later.device_used.size(); ++i) {
    both.device_used[i] = std::max(now.device_used[i], later.device_used[i]);
  }
  for (const auto& [device, bytes] : later.device_memory_used) {
    int64_t& most = both.device_memory_used[device];
    most = std::max(most, bytes);
  }
  for (const auto& [name, amount] : later.custom_used) {
    int64_t& most = both.custom_used[name];
    most = std::max(most, amount);
  }
  return both;
}

}  // namespace troupe::scheduler
