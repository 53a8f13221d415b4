// SPDX-License-Identifier: Apache-2.0
// RulePlacer: places slots whose roles have rules (placement_rule.h). Slots that must lie together are a unit; units
// are placed one after the other, larger ones first and each role after the one it is near to, on the node that its
// strategy likes best. On few nodes a choice that leads nowhere is taken back, within a bounded number of steps, so
// that "impossible" is a proof; on many the first choice stands and the cost is units x nodes. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/core/free_capacity.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {

class RulePlacer {
 public:
  // `slots`: to be placed. `kept`: slots of the same job that lie where they are, of which a unit may be a part.
  // All of them live longer than this.
  RulePlacer(const std::vector<Slot>& slots, const std::vector<KeptSlot>& kept, std::vector<NodeCapacity> nodes);

  // What is placed is in the order of the slots; the capacities given are not changed.
  PlacementResult Run();

 private:
  struct Unit {
    std::vector<int> slots;  // Indices, by replica.
    std::vector<const KeptSlot*> kept;
    const PlacementRule* rule = nullptr;  // Never nullptr once built.
    std::string role;
    int number = 0;
    NodeId pinned;  // Where its kept part lies; "" nowhere.
  };
  struct Site {
    NodeCapacity capacity;
    std::map<std::string, std::set<int>> units;  // Of this job, by role: numbers of the units here.
    bool kept = false;                           // Some of them were here before.
    int of_job() const { return static_cast<int>(units.size()); }
  };
  using Fit = std::vector<std::vector<int>>;  // Devices, by slot of the unit.

  void BuildUnits(const std::vector<Slot>& slots, const std::vector<KeptSlot>& kept);
  void Order();
  bool Descend(size_t depth);
  // The sites that take the unit now, best first; at most `count`.
  std::vector<size_t> Candidates(const Unit& unit, size_t count) const;
  bool RuleAllows(const Unit& unit, const Site& site) const;
  static bool NodeAllows(const Unit& unit, const Site& site);
  bool FitsUnit(const Unit& unit, const NodeCapacity& node, Fit* fit) const;
  bool FitsIsland(const Unit& unit, size_t begin, size_t end, NodeCapacity& node, Fit* fit) const;
  bool InIslands(const Unit& unit, const NodeCapacity& node) const;
  size_t Tightness(const Unit& unit, const NodeCapacity& node) const;
  bool Better(const Unit& unit, const Site& a, const Site& b) const;
  void Put(const Unit& unit, Site& site, const Fit& fit);
  void TakeBack(const Unit& unit, Site& site, const Fit& fit);

  std::string WhyNot(const Unit& unit) const;
  std::string WhyNoNodeFits(const Unit& unit, size_t allowed) const;
  std::string NameOf(const Unit& unit) const;

  const std::vector<Slot>& slots_;
  std::vector<Site> sites_;
  std::vector<Unit> units_;
  std::vector<SlotPlacement> placed_;
  std::map<std::string, std::string> far_;  // Of roles that are to be far from another one: that one.
  size_t deepest_ = 0;                      // The first unit that found no place in the best try,
  std::string reason_;                      // and why.
  int steps_left_;
  bool few_nodes_;
};

}  // namespace troupe::scheduler
