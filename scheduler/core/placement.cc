// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/placement.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "scheduler/core/rule_placer.h"

namespace troupe::scheduler {
namespace {

constexpr int kSearchStepsMax = 20'000;  // About 10 ms on a small cluster; enough for tens of slots on tens of nodes.
constexpr size_t kSearchSlotsMax = 512;  // Depth of the recursion.
constexpr size_t kSearchNodesMax = 256;  // A step compares each node with the others.

// Larger needs first: they have the fewest places.
auto SizeOf(const Amount& need) {
  return std::tuple(need.devices, need.device_shares, need.milli_cpus, need.memory_bytes);
}

std::vector<int> LargestFirst(const std::vector<Slot>& slots) {
  std::vector<int> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return SizeOf(slots[a].need) > SizeOf(slots[b].need); });
  return order;
}

// What was taken of `nodes`; given back at the end unless it was kept.
class Taking {
 public:
  explicit Taking(FreeCapacity& nodes) : nodes_(nodes) {}
  ~Taking() {
    for (auto node = before_.rbegin(); node != before_.rend(); ++node) nodes_.Set(std::move(*node));
  }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
  void Keep() { before_.clear(); }

  // The fullest node that fits, for each slot of `order`. Returns how many got one.
  int Greedy(const std::vector<Slot>& slots, const std::vector<int>& order, std::vector<SlotPlacement>& placed) {
    int fitted = 0;
    for (size_t next = 0; next < order.size();) {
      const Amount& need = slots[order[next]].need;
      size_t end = next;  // Of those that ask for the same.
      while (end < order.size() && slots[order[end]].need == need) ++end;
      while (next < end) {
        NodeCapacity before;
        std::vector<std::vector<int>> taken = nodes_.TakeOnFullest(need, end - next, before);
        if (taken.empty()) break;
        for (std::vector<int>& devices : taken) {
          placed[order[next]] = {order[next], before.node, std::move(devices)};
          ++next;
          ++fitted;
        }
        before_.push_back(std::move(before));
      }
      next = end;
    }
    return fitted;
  }

 private:
  FreeCapacity& nodes_;
  std::vector<NodeCapacity> before_;
};

bool SameRoom(const NodeCapacity& a, const NodeCapacity& b) {
  return a.total == b.total && a.used_milli_cpus == b.used_milli_cpus && a.used_memory_bytes == b.used_memory_bytes &&
         a.device_used == b.device_used;
}

// Every way, but for those that equal slots and equal nodes make the same.
class Search {
 public:
  Search(const std::vector<Slot>& slots, std::vector<NodeCapacity> nodes)
      : slots_(slots), nodes_(std::move(nodes)), order_(LargestFirst(slots)), placed_(slots.size()) {}

  // kNotFound: out of steps.
  PlacementVerdict Run() {
    if (slots_.size() > kSearchSlotsMax || nodes_.size() > kSearchNodesMax) return PlacementVerdict::kNotFound;
    if (Descend(0, 0)) return PlacementVerdict::kPlaced;
    return steps_left_ > 0 ? PlacementVerdict::kImpossible : PlacementVerdict::kNotFound;
  }

  std::vector<SlotPlacement> TakePlacements() { return std::move(placed_); }

 private:
  void Put(int slot, size_t n) {
    std::vector<int> devices;
    FitsOn(slots_[slot].need, nodes_[n], &devices);
    Take(slots_[slot].need, devices, nodes_[n]);
    placed_[slot] = {slot, nodes_[n].node, std::move(devices)};
  }

  // Places order_[depth ..]; an equal slot before it was put on node `first`, so earlier nodes need no second try.
  bool Descend(size_t depth, size_t first) {
    if (depth == order_.size()) return true;
    int slot = order_[depth];
    const Amount& need = slots_[slot].need;
    for (size_t n = first; n < nodes_.size(); ++n) {
      if (--steps_left_ <= 0) return false;
      bool tried = std::any_of(nodes_.begin() + static_cast<long>(first), nodes_.begin() + static_cast<long>(n),
                               [&](const NodeCapacity& other) { return SameRoom(other, nodes_[n]); });
      if (tried || !FitsOn(need, nodes_[n], nullptr)) continue;
      Put(slot, n);
      bool next_is_equal = depth + 1 < order_.size() && slots_[order_[depth + 1]].need == need;
      if (Descend(depth + 1, next_is_equal ? n : 0)) return true;
      GiveBack(need, placed_[slot].devices, nodes_[n]);
    }
    return false;
  }

  const std::vector<Slot>& slots_;
  std::vector<NodeCapacity> nodes_;
  std::vector<int> order_;
  std::vector<SlotPlacement> placed_;
  int steps_left_ = kSearchStepsMax;
};

// How many of the kinds of need the node can satisfy: the nearest fit satisfies most.
auto Nearness(const Amount& need, const NodeCapacity& node) {
  Amount free = node.Free();
  bool kind = need.device_kind.empty() || need.device_kind == node.total.device_kind ||
              (need.devices == 0 && need.device_shares == 0);
  int satisfied = (free.milli_cpus >= need.milli_cpus) +
                  (need.memory_bytes == 0 || node.total.memory_bytes == 0 || free.memory_bytes >= need.memory_bytes) +
                  (kind && free.devices >= need.devices) + kind;
  return std::tuple(satisfied, free.devices, free.milli_cpus, free.memory_bytes);
}

// The nearest of those that have most left of what fits when some of the need is left out.
const NodeCapacity* NearestFit(const Amount& need, const FreeCapacity& nodes) {
  const NodeCapacity* nearest = nullptr;
  for (bool cpus : {true, false}) {
    for (bool memory : {true, false}) {
      for (int32_t devices : {need.devices, std::min(need.devices, 1), 0}) {
        Amount part = need;
        part.device_memory_bytes = 0;
        part.custom.clear();
        if (!cpus) part.milli_cpus = 0;
        if (!memory) part.memory_bytes = 0;
        part.devices = devices;
        if (devices == 0) part.device_shares = 0;
        const NodeCapacity* node = nodes.Emptiest(part);
        if (node != nullptr && (nearest == nullptr || Nearness(need, *node) > Nearness(need, *nearest))) nearest = node;
      }
    }
  }
  return nearest;
}

// The largest free part of one device, for a need of a share.
std::string SharesText(const NodeCapacity& node) {
  auto least = std::min_element(node.device_used.begin(), node.device_used.end());
  double free = least == node.device_used.end() ? 0 : static_cast<double>(kSharesPerDevice - *least) / kSharesPerDevice;
  return absl::StrCat(", at most ", free, " of one device");
}

std::string AloneTooLarge(const Slot& slot, const FreeCapacity& nodes) {
  std::string text = absl::StrCat(slot.ToString(), " asks for ", slot.need.ToString(), " on one node");
  const NodeCapacity* nearest = NearestFit(slot.need, nodes);
  if (nearest == nullptr) return absl::StrCat(text, "; there is no node");
  absl::StrAppend(&text, "; the nearest fit is node ", nearest->node.value(), " with ", nearest->Free().ToString(),
                  slot.need.device_shares > 0 ? SharesText(*nearest) : "", " free of ", nearest->total.ToString());
  return text;
}

Amount SumOf(const std::vector<Slot>& slots) {
  Amount sum;
  for (const Slot& slot : slots) {
    sum.milli_cpus += slot.need.milli_cpus;
    sum.memory_bytes += slot.need.memory_bytes;
    sum.devices += slot.need.devices;
  }
  return sum;
}

std::string TogetherTooLarge(const std::vector<Slot>& slots, const FreeCapacity& nodes, int fitted) {
  return absl::StrCat("the job asks for ", SumOf(slots).ToString(), " in ", slots.size(), " places at once; ",
                      nodes.size(), nodes.size() == 1 ? " node has " : " nodes have ", nodes.Sum().ToString(),
                      " free, and the nearest fit is ", fitted, " of the ", slots.size(), " places");
}

// Whether slots that ask for the same do not fit even without the others. Filling node after node with equal slots is
// the best that can be done with them, so this is a proof.
bool EqualOnesTooLarge(const std::vector<Slot>& slots, FreeCapacity& nodes) {
  const std::vector<int> order = LargestFirst(slots);
  std::vector<SlotPlacement> placed(slots.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && slots[order[end]].need == slots[order[begin]].need) ++end;
    const std::vector<int> equal(order.begin() + static_cast<long>(begin), order.begin() + static_cast<long>(end));
    if (Taking(nodes).Greedy(slots, equal, placed) < static_cast<int>(equal.size())) return true;
  }
  return false;
}

void TakeAll(const std::vector<Slot>& slots, const PlacementResult& result, FreeCapacity& nodes) {
  for (const SlotPlacement& placement : result.placements) {
    NodeCapacity node = *nodes.Find(placement.node);
    Take(slots[static_cast<size_t>(placement.slot)].need, placement.devices, node);
    nodes.Set(std::move(node));
  }
}

// Why not every slot fits, or, after a search, their places.
PlacementResult ProveOrSearch(const std::vector<Slot>& slots, FreeCapacity& nodes, int fitted) {
  PlacementResult result{.verdict = PlacementVerdict::kImpossible};
  const Amount* fits = nullptr;  // What was found to fit last: most slots ask for the same as the one before.
  for (const Slot& slot : slots) {
    if (fits != nullptr && slot.need == *fits) continue;
    if (nodes.Fullest(slot.need) == nullptr) {
      result.reason = AloneTooLarge(slot, nodes);
      return result;
    }
    fits = &slot.need;
  }
  const Amount asked = SumOf(slots), free = nodes.Sum();
  if (asked.milli_cpus <= free.milli_cpus && asked.devices <= free.devices && !EqualOnesTooLarge(slots, nodes)) {
    Search search(slots, nodes.size() <= kSearchNodesMax ? nodes.All() : std::vector<NodeCapacity>());
    result.verdict = nodes.size() <= kSearchNodesMax ? search.Run() : PlacementVerdict::kNotFound;
    if (result.verdict == PlacementVerdict::kPlaced) {
      result.placements = search.TakePlacements();
      return result;
    }
  }
  result.reason = TogetherTooLarge(slots, nodes, fitted);
  return result;
}

}  // namespace

PlacementResult PlaceAndTake(const std::vector<Slot>& slots, FreeCapacity& nodes, const std::vector<KeptSlot>& kept) {
  const bool ruled = std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.rule != nullptr; }) ||
                     std::any_of(kept.begin(), kept.end(), [](const KeptSlot& k) { return k.slot->rule != nullptr; });
  if (ruled) {
    PlacementResult result = RulePlacer(slots, kept, nodes.All()).Run();
    TakeAll(slots, result, nodes);
    return result;
  }
  int fitted = 0;
  {
    PlacementResult result;
    result.placements.resize(slots.size());
    Taking taking(nodes);
    fitted = taking.Greedy(slots, LargestFirst(slots), result.placements);
    if (fitted == static_cast<int>(slots.size())) {
      taking.Keep();
      return result;
    }
  }
  PlacementResult result = ProveOrSearch(slots, nodes, fitted);
  TakeAll(slots, result, nodes);
  return result;
}

PlacementResult Place(const std::vector<Slot>& slots, FreeCapacity& nodes, const std::vector<KeptSlot>& kept) {
  PlacementResult result = PlaceAndTake(slots, nodes, kept);
  for (const SlotPlacement& placement : result.placements) {
    NodeCapacity node = *nodes.Find(placement.node);
    GiveBack(slots[static_cast<size_t>(placement.slot)].need, placement.devices, node);
    nodes.Set(std::move(node));
  }
  return result;
}

PlacementResult Place(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                      const std::vector<KeptSlot>& kept) {
  FreeCapacity all(nodes);
  return PlaceAndTake(slots, all, kept);
}

}  // namespace troupe::scheduler
