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
  if (node.taken_alone) return {};
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
          .device_kind = total.device_kind,
          .custom = FreeCustoms()};
}

std::map<std::string, int64_t> NodeCapacity::FreeCustoms() const {
  std::map<std::string, int64_t> free;
  for (const auto& [name, amount] : total.custom) free[name] = FreeCustom(name);
  return free;
}

int64_t NodeCapacity::FreeDeviceMemory(int device) const {
  const auto index = static_cast<size_t>(device);
  if (facts == nullptr || index >= facts->device_memory_bytes.size() || facts->device_memory_bytes[index] == 0) {
    return std::numeric_limits<int64_t>::max();
  }
  auto used = device_memory_used.find(device);
  return facts->device_memory_bytes[index] - (used == device_memory_used.end() ? 0 : used->second);
}

int64_t NodeCapacity::FreeCustom(const std::string& name) const {
  auto has = total.custom.find(name);
  auto used = custom_used.find(name);
  return (has == total.custom.end() ? 0 : has->second) - (used == custom_used.end() ? 0 : used->second);
}

bool FitsOn(const Amount& need, const NodeCapacity& node, std::vector<int>* devices) {
  static const std::vector<int> kAll = [] {
    std::vector<int> all(static_cast<size_t>(kDevicesMax));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }();
  return FitsOn(need, node, kAll, devices);
}

bool FitsOn(const Amount& need, const NodeCapacity& node, const std::vector<int>& of, std::vector<int>* devices) {
  if (node.taken_alone) return false;
  if (need.milli_cpus > node.total.milli_cpus - node.used_milli_cpus) return false;
  if (need.memory_bytes > 0 && node.total.memory_bytes > 0 &&
      need.memory_bytes > node.total.memory_bytes - node.used_memory_bytes) {
    return false;
  }
  for (const auto& [name, amount] : need.custom) {
    if (amount > node.FreeCustom(name)) return false;
  }
  if (!AsksForDevices(need)) return true;
  if (!KindFits(need, node)) return false;
  auto has_memory = [&](int device) {
    return need.device_memory_bytes == 0 || need.device_memory_bytes <= node.FreeDeviceMemory(device);
  };
  if (need.devices > 0) {
    int found = 0;
    for (int d : of) {
      if (static_cast<size_t>(d) >= node.device_used.size() || found == need.devices) break;
      if (node.device_used[static_cast<size_t>(d)] != 0 || !has_memory(d)) continue;
      ++found;
      if (devices != nullptr) devices->push_back(d);
    }
    if (found < need.devices && devices != nullptr) devices->clear();
    return found == need.devices;
  }
  int best = -1;  // The fullest device that has the share.
  for (int d : of) {
    if (static_cast<size_t>(d) >= node.device_used.size()) break;
    bool fits = node.device_used[d] + need.device_shares <= kSharesPerDevice && has_memory(d);
    if (fits && (best < 0 || node.device_used[d] > node.device_used[best])) best = d;
  }
  if (best >= 0 && devices != nullptr) devices->push_back(best);
  return best >= 0;
}

void Take(const Amount& need, const std::vector<int>& devices, NodeCapacity& node) {
  node.used_milli_cpus += need.milli_cpus;
  node.used_memory_bytes += need.memory_bytes;
  for (int d : devices) {
    node.device_used[d] += need.devices > 0 ? kSharesPerDevice : need.device_shares;
    if (need.device_memory_bytes > 0) node.device_memory_used[d] += need.device_memory_bytes;
  }
  for (const auto& [name, amount] : need.custom) node.custom_used[name] += amount;
}

void GiveBack(const Amount& need, const std::vector<int>& devices, NodeCapacity& node) {
  node.used_milli_cpus -= need.milli_cpus;
  node.used_memory_bytes -= need.memory_bytes;
  for (int d : devices) {
    node.device_used[d] -= need.devices > 0 ? kSharesPerDevice : need.device_shares;
    if (need.device_memory_bytes > 0 && (node.device_memory_used[d] -= need.device_memory_bytes) == 0) {
      node.device_memory_used.erase(d);
    }
  }
  for (const auto& [name, amount] : need.custom) {
    if ((node.custom_used[name] -= amount) == 0) node.custom_used.erase(name);
  }
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
  if (want.MayFit(tree->own) && FitsOn(want.need, tree->capacity, nullptr)) return tree;
  return First(tree->after, want);
}

template <typename Entry, typename Want>
Entry* Last(Entry* tree, const Want& want) {
  if (tree == nullptr || !want.MayFit(tree->most)) return nullptr;
  if (Entry* found = Last(tree->after, want)) return found;
  if (want.MayFit(tree->own) && FitsOn(want.need, tree->capacity, nullptr)) return tree;
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

void FreeCapacity::SetJobs(const NodeId& node, int jobs) { entries_.at(node)->capacity.jobs = jobs; }

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
  AddToSums(entry->capacity, 1);
  root_ = Insert(root_, entry);
}

void FreeCapacity::Unindex(Entry* entry) {
  root_ = Erase(root_, entry);
  AddToSums(entry->capacity, -1);
}

void FreeCapacity::AddToSums(const NodeCapacity& node, int sign) {
  if (node.taken_alone) return;
  free_milli_cpus_ += sign * (node.total.milli_cpus - node.used_milli_cpus);
  if (node.total.memory_bytes != 0) free_memory_bytes_ += sign * (node.total.memory_bytes - node.used_memory_bytes);
  free_devices_ += sign * std::count(node.device_used.begin(), node.device_used.end(), 0);
}

}  // namespace troupe::scheduler
