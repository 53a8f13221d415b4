// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/islands.h"

#include <map>

namespace troupe::device {
namespace {

// Disjoint sets with path halving.
class Sets {
 public:
  int Add() {
    parents_.push_back(static_cast<int>(parents_.size()));
    return parents_.back();
  }
  int Of(int member) {
    while (parents_[member] != member) member = parents_[member] = parents_[parents_[member]];
    return member;
  }
  void Join(int a, int b) { parents_[Of(a)] = Of(b); }

 private:
  std::vector<int> parents_;
};

}  // namespace

std::vector<int> Islands(const std::vector<std::string>& names, const std::vector<FastLink>& links) {
  Sets sets;
  std::map<std::string, int> members;
  const int devices = static_cast<int>(names.size());
  for (const std::string& name : names) members.emplace(name, sets.Add());
  for (const FastLink& link : links) {
    if (link.device < 0 || link.device >= devices) continue;
    auto peer = members.find(link.peer);
    if (peer == members.end()) peer = members.emplace(link.peer, sets.Add()).first;  // A switch.
    sets.Join(link.device, peer->second);
  }
  std::map<int, int> sizes, numbers;
  for (int device = 0; device < devices; ++device) ++sizes[sets.Of(device)];
  std::vector<int> islands;
  for (int device = 0; device < devices; ++device) {
    const int set = sets.Of(device);
    if (sizes[set] < 2) {
      islands.push_back(-1);
    } else {
      islands.push_back(numbers.emplace(set, static_cast<int>(numbers.size())).first->second);
    }
  }
  return islands;
}

}  // namespace troupe::device
