// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/free_capacity.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace troupe::scheduler {
namespace {

constexpr uint64_t kLastKindBit = uint64_t{1} << 63;

bool AsksForDevices(const Amount& need) { return need.devices > 0 || need.device_shares > 0; }

bool KindFits(const Amount& need, const NodeCapacity& node) {
  return need.device_kind.empty() || need.device_kind == node.total.device_kind || !AsksForDevices(need);
}

// The most of each kind that one node has left.
struct Most {
  int64_t milli_cpus = 0;
  int64_t memory_bytes = 0;
  int32_t devices = 0;        // Whole ones.
  int32_t device_shares = 0;  // Of one device.
  uint64_t kinds = 0;
};

Most MostOf(const NodeCapacity& node, uint64_t kind) {
  Most most{.milli_cpus = node.total.milli_cpus - node.used_milli_cpus,
            .memory_bytes = node.total.memory_bytes == 0 ? std::numeric_limits<int64_t>::max()
                                                         : node.total.memory_bytes - node.used_memory_bytes,
            .kinds = kind};
  for (int32_t used : node.device_used) {
    most.devices += used == 0;
    most.device_shares = std::max(most.device_shares, kSharesPerDevice - used);
  }
  return most;
}

Most Larger(const Most& a, const Most& b) {
  return {std::max(a.milli_cpus, b.milli_cpus), std::max(a.memory_bytes, b.memory_bytes),
          std::max(a.devices, b.devices), std::max(a.device_shares, b.device_shares), a.kinds | b.kinds};
}

}  // namespace

Amount NodeCapacity::Free() const {
  return {.milli_cpus = total.milli_cpus - used_milli_cpus,
          .memory_bytes = total.memory_bytes == 0 ? 0 : total.memory_bytes - used_memory_bytes,
          .devices = static_cast<int32_t>(std::count(device_used.begin(), device_used.end(), 0)),
          .device_kind = total.device_kind};
}

bool FitsOn(const Amount& need, const NodeCapacity& node, std::vector<int>* devices) {
  if (need.milli_cpus > node.total.milli_cpus - node.used_milli_cpus) return false;
  if (need.memory_bytes > 0 && node.total.memory_bytes > 0 &&
      need.memory_bytes > node.total.memory_bytes - node.used_memory_bytes) {
    return false;
  }
  if (!AsksForDevices(need)) return true;
  if (!KindFits(need, node)) return false;
  if (need.devices > 0) {
    if (std::count(node.device_used.begin(), node.device_used.end(), 0) < need.devices) return false;
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

// A node of the tree: a treap, ordered by what is left, with priorities that look random and do not matter.
struct FreeCapacity::Entry {
  NodeCapacity capacity;
  Most own, most;  // `most`: of the subtree.
  int64_t left_shares = 0;
  uint64_t priority = 0;
  Entry* before = nullptr;  // Children.
  Entry* after = nullptr;

  auto Key() const {
    return std::tuple(left_shares, own.milli_cpus, capacity.total.memory_bytes - capacity.used_memory_bytes);
  }
  bool Less(const Entry& other) const {
    auto a = Key(), b = other.Key();
    return a != b ? a < b : capacity.node < other.capacity.node;
  }
  void Update() {
    most = own;
    if (before != nullptr) most = Larger(most, before->most);
    if (after != nullptr) most = Larger(most, after->most);
  }
};

struct FreeCapacity::Want {
  const Amount& need;
  uint64_t kinds;  // Bits of what does; all of them when it does not matter.

  bool MayFit(const Most& most) const {
    return need.milli_cpus <= most.milli_cpus && (need.memory_bytes == 0 || need.memory_bytes <= most.memory_bytes) &&
           need.devices <= most.devices && need.device_shares <= most.device_shares && (kinds & most.kinds) != 0;
  }
};

namespace {

// Splits the tree into what is less than `at` and the rest.
template <typename Entry>
void Split(Entry* tree, const Entry& at, Entry*& less, Entry*& rest) {
  if (tree == nullptr) {
    less = rest = nullptr;
  } else if (tree->Less(at)) {
    Split(tree->after, at, tree->after, rest);
    less = tree;
    tree->Update();
  } else {
    Split(tree->before, at, less, tree->before);
    rest = tree;
    tree->Update();
  }
}

// Requires: all of `a` is less than all of `b`.
template <typename Entry>
Entry* Join(Entry* a, Entry* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  if (a->priority > b->priority) {
    a->after = Join(a->after, b);
    a->Update();
    return a;
  }
  b->before = Join(a, b->before);
  b->Update();
  return b;
}

template <typename Entry>
Entry* Insert(Entry* tree, Entry* entry) {
  if (tree == nullptr || entry->priority > tree->priority) {
    Split(tree, *entry, entry->before, entry->after);
    entry->Update();
    return entry;
  }
  Entry*& side = tree->Less(*entry) ? tree->after : tree->before;
  side = Insert(side, entry);
  tree->Update();
  return tree;
}

template <typename Entry>
Entry* Erase(Entry* tree, const Entry* entry) {
  if (tree == entry) return Join(tree->before, tree->after);
  Entry*& side = tree->Less(*entry) ? tree->after : tree->before;
  side = Erase(side, entry);
  tree->Update();
  return tree;
}

template <typename Entry, typename Want>
Entry* First(Entry* tree, const Want& want) {
  if (tree == nullptr || !want.MayFit(tree->most)) return nullptr;
  if (Entry* found = First(tree->before, want)) return found;
  if (want.MayFit(tree->own) && KindFits(want.need, tree->capacity)) return tree;
  return First(tree->after, want);
}

template <typename Entry, typename Want>
Entry* Last(Entry* tree, const Want& want) {
  if (tree == nullptr || !want.MayFit(tree->most)) return nullptr;
  if (Entry* found = Last(tree->after, want)) return found;
  if (want.MayFit(tree->own) && KindFits(want.need, tree->capacity)) return tree;
  return Last(tree->before, want);
}

// A bijection that scatters.
uint64_t Scatter(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

FreeCapacity::FreeCapacity() = default;
FreeCapacity::~FreeCapacity() = default;

FreeCapacity::FreeCapacity(const std::vector<NodeCapacity>& nodes) {
  for (const NodeCapacity& node : nodes) Set(node);
}

void FreeCapacity::Set(NodeCapacity node) {
  std::unique_ptr<Entry>& entry = entries_[node.node];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
    entry->priority = Scatter(++indexed_);
  } else {
    if (entry->capacity == node) return;
    Unindex(entry.get());
  }
  entry->capacity = std::move(node);
  Index(entry.get());
}

void FreeCapacity::Remove(const NodeId& node) {
  auto it = entries_.find(node);
  if (it == entries_.end()) return;
  Unindex(it->second.get());
  entries_.erase(it);
}

const NodeCapacity* FreeCapacity::Find(const NodeId& node) const {
  auto it = entries_.find(node);
  return it == entries_.end() ? nullptr : &it->second->capacity;
}

const NodeCapacity* FreeCapacity::Fullest(const Amount& need) const {
  const Entry* found = First(root_, WantOf(need));
  return found == nullptr ? nullptr : &found->capacity;
}

const NodeCapacity* FreeCapacity::Emptiest(const Amount& need) const {
  const Entry* found = Last(root_, WantOf(need));
  return found == nullptr ? nullptr : &found->capacity;
}

// The node stays the fullest that fits while it fits: what it has left only shrinks.
std::vector<std::vector<int>> FreeCapacity::TakeOnFullest(const Amount& need, size_t count, NodeCapacity& before) {
  std::vector<std::vector<int>> taken;
  Entry* entry = First(root_, WantOf(need));
  if (entry == nullptr) return taken;
  before = entry->capacity;
  Unindex(entry);
  for (std::vector<int> devices; taken.size() < count && FitsOn(need, entry->capacity, &devices); devices.clear()) {
    Take(need, devices, entry->capacity);
    taken.push_back(devices);
  }
  Index(entry);
  return taken;
}

Amount FreeCapacity::Sum() const {
  return {.milli_cpus = free_milli_cpus_,
          .memory_bytes = free_memory_bytes_,
          .devices = static_cast<int32_t>(std::min<int64_t>(free_devices_, std::numeric_limits<int32_t>::max()))};
}

std::vector<NodeCapacity> FreeCapacity::All() const {
  std::vector<NodeCapacity> nodes;
  for (const auto& [id, entry] : entries_) nodes.push_back(entry->capacity);
  return nodes;
}

FreeCapacity::Want FreeCapacity::WantOf(const Amount& need) const {
  if (!AsksForDevices(need) || need.device_kind.empty()) return {need, ~uint64_t{0}};
  auto bit = kinds_.find(need.device_kind);
  return {need, bit == kinds_.end() ? 0 : bit->second};
}

uint64_t FreeCapacity::KindBit(const std::string& kind) {
  auto [it, added] = kinds_.emplace(kind, kLastKindBit);
  if (added && kinds_.size() < 64) it->second = uint64_t{1} << (kinds_.size() - 1);
  return it->second;
}

void FreeCapacity::Index(Entry* entry) {
  entry->own = MostOf(entry->capacity, KindBit(entry->capacity.total.device_kind));
  const std::vector<int32_t>& used = entry->capacity.device_used;
  entry->left_shares = int64_t{kSharesPerDevice} * static_cast<int64_t>(used.size()) -
                       std::accumulate(used.begin(), used.end(), int64_t{0});
  entry->before = entry->after = nullptr;
  Amount free = entry->capacity.Free();
  free_milli_cpus_ += free.milli_cpus;
  free_memory_bytes_ += free.memory_bytes;
  free_devices_ += free.devices;
  root_ = Insert(root_, entry);
}

void FreeCapacity::Unindex(Entry* entry) {
  root_ = Erase(root_, entry);
  Amount free = entry->capacity.Free();
  free_milli_cpus_ -= free.milli_cpus;
  free_memory_bytes_ -= free.memory_bytes;
  free_devices_ -= free.devices;
}

}  // namespace troupe::scheduler
