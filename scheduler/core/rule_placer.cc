// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/rule_placer.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace troupe::scheduler {
namespace {

using Proto = v1::PlacementRule;

constexpr int kStepsMax = 20'000;
constexpr size_t kFewNodes = 256;

const PlacementRule& Anywhere() {
  static const PlacementRule kAnywhere;
  return kAnywhere;
}

const std::string& RoleOf(const Slot& slot) { return slot.members[0].role; }

int64_t LeftShares(const NodeCapacity& node) {
  return std::accumulate(node.device_used.begin(), node.device_used.end(), int64_t{0},
                         [](int64_t sum, int32_t used) { return sum + std::max(0, kSharesPerDevice - used); });
}

auto Left(const NodeCapacity& node) {
  return std::tuple(LeftShares(node), node.total.milli_cpus - node.used_milli_cpus,
                    node.total.memory_bytes - node.used_memory_bytes);
}

bool HasLabel(const NodeCapacity& node, const std::string& key, const std::string& value) {
  if (node.facts == nullptr) return false;
  auto label = node.facts->labels.find(key);
  return label != node.facts->labels.end() && label->second == value;
}

// Devices of each island; one that no fast link joins to others is an island of its own.
std::vector<std::vector<int>> IslandsOf(const NodeCapacity& node) {
  std::vector<std::vector<int>> islands;
  if (node.facts == nullptr) return islands;
  std::map<int, std::vector<int>> joined;
  for (size_t d = 0; d < node.facts->islands.size() && d < node.device_used.size(); ++d) {
    const int island = node.facts->islands[d];
    if (island >= 0) {
      joined[island].push_back(static_cast<int>(d));
    } else {
      islands.push_back({static_cast<int>(d)});
    }
  }
  for (auto& [number, devices] : joined) islands.push_back(std::move(devices));
  return islands;
}

size_t FreeIn(const std::vector<int>& island, const NodeCapacity& node) {
  return static_cast<size_t>(std::count_if(
      island.begin(), island.end(), [&](int device) { return node.device_used[static_cast<size_t>(device)] == 0; }));
}

std::string NodesText(size_t count) { return count == 1 ? "1 node" : absl::StrCat(count, " nodes"); }

}  // namespace

RulePlacer::RulePlacer(const std::vector<Slot>& slots, const std::vector<KeptSlot>& kept,
                       std::vector<NodeCapacity> nodes)
    : slots_(slots), placed_(slots.size()), steps_left_(kStepsMax), few_nodes_(nodes.size() <= kFewNodes) {
  for (NodeCapacity& node : nodes) sites_.push_back({std::move(node), {}, false});
  BuildUnits(slots, kept);
  Order();
}

void RulePlacer::BuildUnits(const std::vector<Slot>& slots, const std::vector<KeptSlot>& kept) {
  std::map<std::pair<std::string, int>, size_t> index;
  auto unit_of = [&](const Slot& slot) -> Unit& {
    const PlacementRule& rule = slot.rule == nullptr ? Anywhere() : *slot.rule;
    if (!rule.far_from_role.empty()) far_[RoleOf(slot)] = rule.far_from_role;
    const int number = rule.together() == 0 ? 0 : slot.members[0].replica / rule.together();
    auto [it, added] = index.emplace(std::pair(RoleOf(slot), number), units_.size());
    if (added) {
      Unit unit;
      unit.rule = &rule;
      unit.role = RoleOf(slot);
      unit.number = number;
      units_.push_back(std::move(unit));
    }
    return units_[it->second];
  };
  for (size_t i = 0; i < slots.size(); ++i) unit_of(slots[i]).slots.push_back(static_cast<int>(i));
  for (const KeptSlot& one : kept) {
    Unit& unit = unit_of(*one.slot);
    unit.kept.push_back(&one);
    unit.pinned = one.node;
    auto site = std::find_if(sites_.begin(), sites_.end(), [&](const Site& s) { return s.capacity.node == one.node; });
    if (site == sites_.end()) continue;
    site->kept = true;
    for (const ReplicaKey& member : one.slot->members) site->units[member.role].insert(unit.number);
  }
  std::erase_if(units_, [](const Unit& unit) { return unit.slots.empty(); });
  for (Unit& unit : units_) {
    std::sort(unit.slots.begin(), unit.slots.end(),
              [&](int a, int b) { return slots[a].members[0].replica < slots[b].members[0].replica; });
  }
}

void RulePlacer::Order() {
  std::map<std::string, std::string> near;
  for (const Unit& unit : units_) near[unit.role] = unit.rule->near_role;
  auto rank = [&](const Unit& unit) {  // How many roles are placed before it.
    int before = 0;
    for (std::string at = unit.rule->near_role; !at.empty() && before <= static_cast<int>(near.size()); ++before) {
      auto next = near.find(at);
      at = next == near.end() ? "" : next->second;
    }
    return before;
  };
  auto size = [&](const Unit& unit) {
    int64_t shares = 0, cpus = 0, memory = 0;
    for (int slot : unit.slots) {
      const Amount& need = slots_[slot].need;
      shares += int64_t{need.devices} * kSharesPerDevice + need.device_shares;
      cpus += need.milli_cpus;
      memory += need.memory_bytes;
    }
    return std::tuple(-shares, -cpus, -memory);
  };
  std::stable_sort(units_.begin(), units_.end(), [&](const Unit& a, const Unit& b) {
    return std::tuple(rank(a), a.pinned.empty(), size(a)) < std::tuple(rank(b), b.pinned.empty(), size(b));
  });
}

PlacementResult RulePlacer::Run() {
  PlacementResult result;
  if (Descend(0)) {
    result.placements = std::move(placed_);
    return result;
  }
  const Unit& unit = units_[deepest_];
  // A unit that no node takes even before any other unit was placed takes none whatever is tried.
  const bool alone = deepest_ == 0 && unit.rule->near_role.empty();
  result.verdict =
      alone || (few_nodes_ && steps_left_ > 0) ? PlacementVerdict::kImpossible : PlacementVerdict::kNotFound;
  result.reason = std::move(reason_);
  return result;
}

bool RulePlacer::Descend(size_t depth) {
  if (depth == units_.size()) return true;
  const Unit& unit = units_[depth];
  bool placed = false;
  for (size_t s : Candidates(unit, few_nodes_ ? sites_.size() : 1)) {
    if (--steps_left_ <= 0) break;
    Site& site = sites_[s];
    Fit fit;
    if (!FitsUnit(unit, site.capacity, &fit)) continue;
    Put(unit, site, fit);
    if (Descend(depth + 1)) return true;
    placed = true;
    TakeBack(unit, site, fit);
  }
  if (!placed && (reason_.empty() || depth > deepest_)) {
    deepest_ = depth;
    reason_ = WhyNot(unit);
  }
  return false;
}

std::vector<size_t> RulePlacer::Candidates(const Unit& unit, size_t count) const {
  std::vector<size_t> found;
  for (size_t s = 0; s < sites_.size(); ++s) {
    const Site& site = sites_[s];
    if (!NodeAllows(unit, site) || !RuleAllows(unit, site) || !FitsUnit(unit, site.capacity, nullptr)) continue;
    if (count > 1 || found.empty()) {
      found.push_back(s);
    } else if (Better(unit, site, sites_[found[0]])) {
      found[0] = s;
    }
  }
  std::stable_sort(found.begin(), found.end(), [&](size_t a, size_t b) { return Better(unit, sites_[a], sites_[b]); });
  return found;
}

// What follows from the node alone.
bool RulePlacer::NodeAllows(const Unit& unit, const Site& site) {
  const PlacementRule& rule = *unit.rule;
  for (const auto& [key, value] : rule.node_labels) {
    if (!HasLabel(site.capacity, key, value)) return false;
  }
  for (const auto& [key, value] : rule.not_node_labels) {
    if (HasLabel(site.capacity, key, value)) return false;
  }
  return true;
}

// What follows from where the rest of the job lies. Its own slots make a node no less its own.
bool RulePlacer::RuleAllows(const Unit& unit, const Site& site) const {
  const PlacementRule& rule = *unit.rule;
  if (!unit.pinned.empty() && site.capacity.node != unit.pinned) return false;
  if (rule.exclusive_nodes && site.capacity.jobs > (site.kept ? 1 : 0)) return false;
  auto own = site.units.find(unit.role);
  if (rule.apart() && own != site.units.end() && (own->second.size() > 1 || !own->second.contains(unit.number))) {
    return false;
  }
  if (!rule.near_role.empty() && !site.units.contains(rule.near_role)) return false;
  if (!rule.far_from_role.empty() && site.units.contains(rule.far_from_role)) return false;
  // Others may want to be far from this role.
  return std::none_of(far_.begin(), far_.end(),
                      [&](const auto& far) { return far.second == unit.role && site.units.contains(far.first); });
}

bool RulePlacer::FitsUnit(const Unit& unit, const NodeCapacity& node, Fit* fit) const {
  const PlacementRule& rule = *unit.rule;
  if (rule.island != Proto::ISLAND_ANY && InIslands(unit, node)) {
    NodeCapacity left = node;
    const auto group = static_cast<size_t>(rule.island_replicas);
    for (size_t begin = 0; begin < unit.slots.size(); begin += group) {
      if (!FitsIsland(unit, begin, std::min(begin + group, unit.slots.size()), left, fit)) return false;
    }
    return true;
  }
  if (rule.island == Proto::ISLAND_REQUIRE) return false;
  if (unit.slots.size() == 1 && fit == nullptr) return FitsOn(slots_[unit.slots[0]].need, node, nullptr);
  NodeCapacity left = node;
  for (int slot : unit.slots) {
    std::vector<int> devices;
    if (!FitsOn(slots_[slot].need, left, &devices)) return false;
    Take(slots_[slot].need, devices, left);
    if (fit != nullptr) fit->push_back(std::move(devices));
  }
  return true;
}

// Whether each group of the unit's slots finds an island.
bool RulePlacer::InIslands(const Unit& unit, const NodeCapacity& node) const {
  NodeCapacity left = node;
  const auto group = static_cast<size_t>(unit.rule->island_replicas);
  for (size_t begin = 0; begin < unit.slots.size(); begin += group) {
    if (!FitsIsland(unit, begin, std::min(begin + group, unit.slots.size()), left, nullptr)) return false;
  }
  return true;
}

// The island with the fewest free devices that takes slots begin .. end of the unit, so that large ones stay whole;
// that of the kept ones of the same group when there are some.
bool RulePlacer::FitsIsland(const Unit& unit, size_t begin, size_t end, NodeCapacity& node, Fit* fit) const {
  std::vector<std::vector<int>> islands = IslandsOf(node);
  const int group = slots_[unit.slots[begin]].members[0].replica / unit.rule->island_replicas;
  for (const KeptSlot* kept : unit.kept) {
    if (kept->devices.empty() || kept->slot->members[0].replica / unit.rule->island_replicas != group) continue;
    std::erase_if(islands, [&](const std::vector<int>& island) {
      return std::find(island.begin(), island.end(), kept->devices[0]) == island.end();
    });
  }
  std::stable_sort(islands.begin(), islands.end(), [&](const std::vector<int>& a, const std::vector<int>& b) {
    return FreeIn(a, node) < FreeIn(b, node);
  });
  for (const std::vector<int>& island : islands) {
    NodeCapacity left = node;
    Fit taken;
    for (size_t i = begin; i < end; ++i) {
      std::vector<int> devices;
      const Amount& need = slots_[unit.slots[i]].need;
      if (!FitsOn(need, left, island, &devices)) break;
      Take(need, devices, left);
      taken.push_back(std::move(devices));
    }
    if (taken.size() < end - begin) continue;
    node = std::move(left);
    if (fit != nullptr) fit->insert(fit->end(), taken.begin(), taken.end());
    return true;
  }
  return false;
}

// Free devices of the smallest island that takes the unit's first group.
size_t RulePlacer::Tightness(const Unit& unit, const NodeCapacity& node) const {
  size_t wanted = 0;
  const auto group = std::min(static_cast<size_t>(unit.rule->island_replicas), unit.slots.size());
  for (size_t i = 0; i < group; ++i) wanted += static_cast<size_t>(slots_[unit.slots[i]].need.devices);
  size_t tightest = node.device_used.size() + 1;
  for (const std::vector<int>& island : IslandsOf(node)) {
    const size_t free = FreeIn(island, node);
    if (free >= wanted) tightest = std::min(tightest, free);
  }
  return tightest;
}

bool RulePlacer::Better(const Unit& unit, const Site& a, const Site& b) const {
  const PlacementRule& rule = *unit.rule;
  if (rule.island == Proto::ISLAND_PREFER) {
    const bool in_a = InIslands(unit, a.capacity), in_b = InIslands(unit, b.capacity);
    if (in_a != in_b) return in_a;
  }
  if (rule.island != Proto::ISLAND_ANY) {
    const size_t in_a = Tightness(unit, a.capacity), in_b = Tightness(unit, b.capacity);
    if (in_a != in_b) return in_a < in_b;
  }
  if (rule.strategy == Proto::SPREAD || rule.strategy == Proto::STRICT_SPREAD) {
    auto count = [&](const Site& site) {
      auto own = site.units.find(unit.role);
      return own == site.units.end() ? size_t{0} : own->second.size();
    };
    return std::tuple(count(a), Left(b.capacity), a.capacity.node) <
           std::tuple(count(b), Left(a.capacity), b.capacity.node);
  }
  return std::tuple(a.of_job() == 0, Left(a.capacity), a.capacity.node) <
         std::tuple(b.of_job() == 0, Left(b.capacity), b.capacity.node);
}

void RulePlacer::Put(const Unit& unit, Site& site, const Fit& fit) {
  for (size_t i = 0; i < unit.slots.size(); ++i) {
    const Slot& slot = slots_[unit.slots[i]];
    Take(slot.need, fit[i], site.capacity);
    placed_[unit.slots[i]] = {unit.slots[i], site.capacity.node, fit[i]};
    for (const ReplicaKey& member : slot.members) site.units[member.role].insert(unit.number);
  }
}

void RulePlacer::TakeBack(const Unit& unit, Site& site, const Fit& fit) {
  for (size_t i = 0; i < unit.slots.size(); ++i) {
    const Slot& slot = slots_[unit.slots[i]];
    GiveBack(slot.need, fit[i], site.capacity);
    if (!unit.kept.empty()) continue;
    for (const ReplicaKey& member : slot.members) {
      site.units[member.role].erase(unit.number);
      if (site.units[member.role].empty()) site.units.erase(member.role);
    }
  }
}

std::string RulePlacer::NameOf(const Unit& unit) const {
  std::string text = slots_[unit.slots[0]].ToString();
  if (unit.slots.size() > 1) absl::StrAppend(&text, " to ", slots_[unit.slots.back()].ToString());
  return text;
}

// Rule by rule: the first one that leaves no node.
std::string RulePlacer::WhyNot(const Unit& unit) const {
  const PlacementRule& rule = *unit.rule;
  if (sites_.empty()) return absl::StrCat(NameOf(unit), " finds no node");
  auto none = [&](auto allows) { return std::none_of(sites_.begin(), sites_.end(), allows); };
  for (const auto& [key, value] : rule.node_labels) {
    if (none([&](const Site& site) { return HasLabel(site.capacity, key, value); })) {
      return absl::StrCat(NameOf(unit), " asks for nodes with ", key, "=", value, ", and no node has that label");
    }
  }
  size_t labelled = 0, with_rules = 0;
  for (const Site& site : sites_) {
    if (!NodeAllows(unit, site)) continue;
    ++labelled;
    with_rules += RuleAllows(unit, site);
  }
  if (labelled == 0) return absl::StrCat(NameOf(unit), " is to go ", rule.ToString(), ": no node has such labels");
  if (with_rules > 0) return WhyNoNodeFits(unit, with_rules);
  if (!unit.pinned.empty()) {
    return absl::StrCat(NameOf(unit), " belongs on node ", unit.pinned.value(),
                        ", where the rest of it lies, and that ", "node is not ready");
  }
  return absl::StrCat(NameOf(unit), " is to go ", rule.ToString(), ": none of ", NodesText(labelled),
                      " is left for it by the rest of the job", rule.exclusive_nodes ? " and by other jobs" : "");
}

std::string RulePlacer::WhyNoNodeFits(const Unit& unit, size_t allowed) const {
  const PlacementRule& rule = *unit.rule;
  Amount need;
  for (int slot : unit.slots) {
    const Amount& one = slots_[slot].need;
    need.milli_cpus += one.milli_cpus;
    need.memory_bytes += one.memory_bytes;
    need.devices += one.devices;
    if (unit.slots.size() == 1) need = one;
  }
  std::string text = absl::StrCat(NameOf(unit), " asks for ", need.ToString(), " on one node");
  if (rule != Anywhere()) absl::StrAppend(&text, " (", rule.ToString(), ")");
  size_t largest = 0;
  const Site* nearest = nullptr;
  for (const Site& site : sites_) {
    if (!NodeAllows(unit, site) || !RuleAllows(unit, site)) continue;
    for (const std::vector<int>& island : IslandsOf(site.capacity)) {
      largest = std::max(largest, FreeIn(island, site.capacity));
    }
    if (nearest == nullptr || Left(site.capacity) > Left(nearest->capacity)) nearest = &site;
  }
  if (rule.island == Proto::ISLAND_REQUIRE) {
    absl::StrAppend(&text, "; the largest island has ", largest, " free devices");
  }
  return absl::StrCat(text, "; of ", NodesText(allowed), " that may take it the nearest fit is ",
                      nearest->capacity.node.value(), " with ", nearest->capacity.Free().ToString(), " free of ",
                      nearest->capacity.total.ToString());
}

}  // namespace troupe::scheduler
