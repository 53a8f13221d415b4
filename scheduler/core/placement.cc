// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/placement.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace troupe::scheduler {
namespace {

constexpr int kSearchStepsMax = 20'000;  // About 10 ms on a small cluster; enough for tens of slots on tens of nodes.
constexpr size_t kSearchSlotsMax = 512;  // Depth of the recursion.

int FreeDevices(const NodeCapacity& node) {
  return static_cast<int>(std::count(node.device_used.begin(), node.device_used.end(), 0));
}

bool KindFits(const Amount& need, const NodeCapacity& node) {
  return need.device_kind.empty() || need.device_kind == node.total.device_kind ||
         (need.devices == 0 && need.device_shares == 0);
}

// Larger needs first: they have the fewest places.
auto SizeOf(const Amount& need) {
  return std::tuple(need.devices, need.device_shares, need.milli_cpus, need.memory_bytes);
}

// What would be left on the node, in the order in which it is scarce; the smallest is the fullest node that fits.
auto LeftOn(const NodeCapacity& node) {
  int64_t device_shares = int64_t{kSharesPerDevice} * static_cast<int64_t>(node.device_used.size()) -
                          std::accumulate(node.device_used.begin(), node.device_used.end(), int64_t{0});
  return std::tuple(device_shares, node.total.milli_cpus - node.used_milli_cpus,
                    node.total.memory_bytes - node.used_memory_bytes);
}

bool SameRoom(const NodeCapacity& a, const NodeCapacity& b) {
  return a.total == b.total && a.used_milli_cpus == b.used_milli_cpus && a.used_memory_bytes == b.used_memory_bytes &&
         a.device_used == b.device_used;
}

// Places slots one after another on a copy of the nodes.
class Search {
 public:
  Search(const std::vector<Slot>& slots, std::vector<NodeCapacity> nodes) : slots_(slots), nodes_(std::move(nodes)) {
    std::sort(nodes_.begin(), nodes_.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
    order_.resize(slots.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return SizeOf(slots[a].need) > SizeOf(slots[b].need); });
    placed_.resize(slots.size());
  }

  // The fullest node that fits, for each slot; true when every slot got one. `fitted`: how many did.
  bool Greedy(int* fitted) {
    *fitted = 0;
    bool all = true;
    for (int slot : order_) {
      std::optional<size_t> best;
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (FitsOn(slots_[slot].need, nodes_[n], nullptr) && (!best || LeftOn(nodes_[n]) < LeftOn(nodes_[*best])))
          best = n;
      }
      if (best) {
        Put(slot, *best);
        ++*fitted;
      } else {
        all = false;
      }
    }
    return all;
  }

  // Every way, but for those that equal slots and equal nodes make the same. kNotFound: out of steps.
  PlacementVerdict Exhaustive() {
    steps_left_ = kSearchStepsMax;
    if (slots_.size() > kSearchSlotsMax) return PlacementVerdict::kNotFound;
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
  int steps_left_ = 0;
};

Amount FreeOf(const NodeCapacity& node) {
  return {.milli_cpus = node.total.milli_cpus - node.used_milli_cpus,
          .memory_bytes = node.total.memory_bytes - node.used_memory_bytes,
          .devices = FreeDevices(node),
          .device_kind = node.total.device_kind};
}

// How many of the kinds of need the node can satisfy: the nearest fit satisfies most.
auto Nearness(const Amount& need, const NodeCapacity& node) {
  Amount free = FreeOf(node);
  int satisfied = (free.milli_cpus >= need.milli_cpus) +
                  (need.memory_bytes == 0 || node.total.memory_bytes == 0 || free.memory_bytes >= need.memory_bytes) +
                  (KindFits(need, node) && free.devices >= need.devices) + KindFits(need, node);
  return std::tuple(satisfied, free.devices, free.milli_cpus, free.memory_bytes);
}

// The largest free part of one device, for a need of a share.
std::string SharesText(const NodeCapacity& node) {
  auto least = std::min_element(node.device_used.begin(), node.device_used.end());
  double free = least == node.device_used.end() ? 0 : static_cast<double>(kSharesPerDevice - *least) / kSharesPerDevice;
  return absl::StrCat(", at most ", free, " of one device");
}

// Set when this slot alone fits on no node.
std::optional<std::string> AloneTooLarge(const Slot& slot, const std::vector<NodeCapacity>& nodes) {
  const NodeCapacity* nearest = nullptr;
  for (const NodeCapacity& node : nodes) {
    if (FitsOn(slot.need, node, nullptr)) return std::nullopt;
    if (nearest == nullptr || Nearness(slot.need, node) > Nearness(slot.need, *nearest)) nearest = &node;
  }
  std::string text = absl::StrCat(slot.ToString(), " asks for ", slot.need.ToString(), " on one node");
  if (nearest == nullptr) return absl::StrCat(text, "; there is no node");
  absl::StrAppend(&text, "; the nearest fit is node ", nearest->node.value(), " with ", FreeOf(*nearest).ToString(),
                  slot.need.device_shares > 0 ? SharesText(*nearest) : "", " free of ", nearest->total.ToString());
  return text;
}

std::string TogetherTooLarge(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes, int fitted) {
  Amount asked, free;
  for (const Slot& slot : slots) {
    asked.milli_cpus += slot.need.milli_cpus;
    asked.memory_bytes += slot.need.memory_bytes;
    asked.devices += slot.need.devices;
  }
  for (const NodeCapacity& node : nodes) {
    Amount f = FreeOf(node);
    free.milli_cpus += f.milli_cpus;
    free.memory_bytes += f.memory_bytes;
    free.devices += f.devices;
  }
  return absl::StrCat("the job asks for ", asked.ToString(), " in ", slots.size(), " places at once; ", nodes.size(),
                      nodes.size() == 1 ? " node has " : " nodes have ", free.ToString(),
                      " free, and the nearest fit is ", fitted, " of the ", slots.size(), " places");
}

}  // namespace

PlacementResult Place(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes) {
  PlacementResult result;
  int fitted = 0;
  if (Search greedy(slots, nodes); greedy.Greedy(&fitted)) {
    result.placements = greedy.TakePlacements();
    return result;
  }
  for (const Slot& slot : slots) {
    if (std::optional<std::string> reason = AloneTooLarge(slot, nodes)) {
      result.verdict = PlacementVerdict::kImpossible;
      result.reason = *std::move(reason);
      return result;
    }
  }
  Search search(slots, nodes);
  result.verdict = search.Exhaustive();
  if (result.verdict == PlacementVerdict::kPlaced) {
    result.placements = search.TakePlacements();
  } else {
    result.reason = TogetherTooLarge(slots, nodes, fitted);
  }
  return result;
}

bool FitsOn(const Amount& need, const NodeCapacity& node, std::vector<int>* devices) {
  if (need.milli_cpus > node.total.milli_cpus - node.used_milli_cpus) return false;
  if (need.memory_bytes > 0 && node.total.memory_bytes > 0 &&
      need.memory_bytes > node.total.memory_bytes - node.used_memory_bytes) {
    return false;
  }
  if (need.devices == 0 && need.device_shares == 0) return true;
  if (!KindFits(need, node)) return false;
  if (need.devices > 0) {
    if (FreeDevices(node) < need.devices) return false;
    for (size_t d = 0; devices != nullptr && static_cast<int>(devices->size()) < need.devices; ++d) {
      if (node.device_used[d] == 0) devices->push_back(static_cast<int>(d));
    }
    return true;
  }
  int best = -1;  // The fullest device that has the share.
  for (size_t d = 0; d < node.device_used.size(); ++d) {
    bool fits = node.device_used[d] + need.device_shares <= kSharesPerDevice;
    if (fits && (best < 0 || node.device_used[d] > node.device_used[best])) best = static_cast<int>(d);
  }
  if (best >= 0 && devices != nullptr) devices->push_back(best);
  return best >= 0;
}

void Take(const Amount& need, const std::vector<int>& devices, NodeCapacity& node) {
  node.used_milli_cpus += need.milli_cpus;
  node.used_memory_bytes += need.memory_bytes;
  for (int d : devices) node.device_used[d] += need.devices > 0 ? kSharesPerDevice : need.device_shares;
}

void GiveBack(const Amount& need, const std::vector<int>& devices, NodeCapacity& node) {
  node.used_milli_cpus -= need.milli_cpus;
  node.used_memory_bytes -= need.memory_bytes;
  for (int d : devices) node.device_used[d] -= need.devices > 0 ? kSharesPerDevice : need.device_shares;
}

}  // namespace troupe::scheduler
