// SPDX-License-Identifier: Apache-2.0
// PlacementRule: where the replicas of a role may go, as the scheduler uses it (v1.PlacementRule says what it means).
// Immutable values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "troupe/v1/head.pb.h"

namespace troupe::scheduler {

inline constexpr size_t kRuleLabelsMax = 64;

struct PlacementRule {
  using Strategy = v1::PlacementRule::Strategy;
  using Island = v1::PlacementRule::Island;

  Strategy strategy = v1::PlacementRule::PACK;
  int per_node = 0;
  std::map<std::string, std::string> node_labels;
  std::map<std::string, std::string> not_node_labels;
  std::string near_role;
  std::string far_from_role;
  bool exclusive_nodes = false;
  Island island = v1::PlacementRule::ISLAND_ANY;
  int island_replicas = 1;

  // nullptr: it asks for nothing.
  static std::shared_ptr<const PlacementRule> FromProto(const v1::PlacementRule& proto);

  // So many consecutive replicas lie on one node: 0 all of the role.
  int together() const;
  // Replicas that are not together lie on different nodes.
  bool apart() const { return per_node > 0 || strategy == v1::PlacementRule::STRICT_SPREAD; }
  // "spread, only nodes with zone=a"
  std::string ToString() const;
  friend bool operator==(const PlacementRule&, const PlacementRule&) = default;
};

// The rules of all roles: INVALID_ARGUMENT names the role and what contradicts what.
absl::Status CheckPlacementRules(const v1::JobSpec& spec);

}  // namespace troupe::scheduler
