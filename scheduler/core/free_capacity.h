// SPDX-License-Identifier: Apache-2.0
// FreeCapacity: what nodes have left, kept so that the fullest node that fits a need is found without looking at all of
// them: a search tree in the order of what is left, whose every part knows the most that one of its nodes has left of
// each kind. Finding and changing cost O(log nodes), times the number of ways in which devices are partly taken in the
// worst case. Equal contents give equal answers, whatever the order of the changes that led to them. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {

// What does not change while a node is registered.
struct NodeFacts {
  std::map<std::string, std::string> labels;
  std::vector<int64_t> device_memory_bytes;  // By device, 0: not known. Empty: of none.
  std::vector<int> islands;                  // By device, as v1.Device.island. Empty: not known.
};

// What a node has and what of it is taken.
struct NodeCapacity {
  NodeId node;
  Amount total;  // device_shares is 0.
  int64_t used_milli_cpus = 0;
  int64_t used_memory_bytes = 0;
  std::vector<int32_t> device_used;            // Thousandths, by device; its size is total.devices.
  std::map<int, int64_t> device_memory_used;   // By device, of shares.
  std::map<std::string, int64_t> custom_used;  // Thousandths.
  int jobs = 0;                                // That hold places on it.
  bool taken_alone = false;                    // By a job that wants no other beside it: nothing fits.
  std::shared_ptr<const NodeFacts> facts;      // nullptr: none.

  // What is left; devices: whole ones.
  Amount Free() const;
  // Of that device; the largest number when its memory is not known.
  int64_t FreeDeviceMemory(int device) const;
  // Thousandths.
  int64_t FreeCustom(const std::string& name) const;
  std::map<std::string, int64_t> FreeCustoms() const;
  friend bool operator==(const NodeCapacity&, const NodeCapacity&) = default;
};

// Whether one need fits; fills the devices it would get.
bool FitsOn(const Amount& need, const NodeCapacity& node, std::vector<int>* devices);
// Takes or gives back what a placement holds. Requires: it fits, or was taken.
// The same, of these devices only, in this order of preference.
bool FitsOn(const Amount& need, const NodeCapacity& node, const std::vector<int>& of, std::vector<int>* devices);
void Take(const Amount& need, const std::vector<int>& devices, NodeCapacity& node);
void GiveBack(const Amount& need, const std::vector<int>& devices, NodeCapacity& node);

class FreeCapacity {
 public:
  FreeCapacity();
  explicit FreeCapacity(const std::vector<NodeCapacity>& nodes);
  ~FreeCapacity();
  FreeCapacity(const FreeCapacity&) = delete;
  FreeCapacity& operator=(const FreeCapacity&) = delete;

  // Adds the node or takes the place of what was known of it.
  void Set(NodeCapacity node);
  void Remove(const NodeId& node);
  // So many jobs hold places on it, which matters to no order. Requires: it is known.
  void SetJobs(const NodeId& node, int jobs);
  const NodeCapacity* Find(const NodeId& node) const;

  // The node with the least left among those that fit (device shares, then cpus, then memory; then the smallest id);
  // nullptr: none does.
  const NodeCapacity* Fullest(const Amount& need) const;
  // The one with the most left.
  const NodeCapacity* Emptiest(const Amount& need) const;
  // Takes `need` on that node, and again up to `count` times as long as it fits there too; returns the devices of each
  // time, none when it fits nowhere. `before` becomes that node as it was.
  std::vector<std::vector<int>> TakeOnFullest(const Amount& need, size_t count, NodeCapacity& before);

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // Of all nodes; memory of those that know it.
  Amount Sum() const;
  // By id.
  std::vector<NodeCapacity> All() const;

 private:
  struct Entry;
  struct Want;
  Want WantOf(const Amount& need) const;
  uint64_t KindBit(const std::string& kind);
  void Index(Entry* entry);
  void Unindex(Entry* entry);
  void AddToSums(const NodeCapacity& node, int sign);

  std::map<NodeId, std::unique_ptr<Entry>> entries_;
  std::map<std::string, uint64_t> kinds_;  // The bit of each kind of device; the last one stands for all further ones.
  Entry* root_ = nullptr;
  uint64_t indexed_ = 0;
  int64_t free_milli_cpus_ = 0, free_memory_bytes_ = 0, free_devices_ = 0;
};

}  // namespace troupe::scheduler
