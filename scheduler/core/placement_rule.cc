// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/placement_rule.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace troupe::scheduler {
namespace {

using Proto = v1::PlacementRule;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string LabelText(const std::map<std::string, std::string>& labels) {
  std::string text;
  for (const auto& [key, value] : labels) absl::StrAppend(&text, text.empty() ? "" : ", ", key, "=", value);
  return text;
}

absl::Status CheckLabels(const Proto& rule) {
  if (rule.node_labels_size() + rule.not_node_labels_size() > static_cast<int>(kRuleLabelsMax)) {
    return Bad(absl::StrCat("more than ", kRuleLabelsMax, " labels"));
  }
  for (const auto& [key, value] : rule.node_labels()) {
    auto other = rule.not_node_labels().find(key);
    if (key.empty()) return Bad("a label has no name");
    if (other != rule.not_node_labels().end() && other->second == value) {
      return Bad(absl::StrCat("the label ", key, "=", value, " is both demanded (node_labels) and forbidden ",
                              "(not_node_labels)"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRole(const v1::RoleSpec& role, const v1::JobSpec& spec) {
  const Proto& rule = role.placement();
  TROUPE_RETURN_IF_ERROR(CheckLabels(rule));
  if (rule.per_node() < 0 || rule.island_replicas() < 0)
    return Bad("per_node and island_replicas must not be negative");
  const bool strict = rule.strategy() == Proto::STRICT_SPREAD || rule.strategy() == Proto::STRICT_PACK;
  if (strict && rule.per_node() > (rule.strategy() == Proto::STRICT_SPREAD ? 1 : 0)) {
    return Bad(absl::StrCat("per_node ", rule.per_node(), " and the strategy ",
                            absl::AsciiStrToLower(Proto::Strategy_Name(rule.strategy())), " contradict each other"));
  }
  const int together = std::max(1, rule.island_replicas());
  if (together > 1 && rule.island() == Proto::ISLAND_UNSPECIFIED) return Bad("island_replicas is given without island");
  if (together > 1 && rule.strategy() == Proto::STRICT_SPREAD) {
    return Bad("island_replicas asks for several replicas on one node, strict_spread for each on a node of its own");
  }
  if (rule.per_node() % together != 0) {
    return Bad(absl::StrCat("island_replicas ", together, " does not divide per_node ", rule.per_node()));
  }
  if (role.replicas() % together != 0) {
    return Bad(absl::StrCat("island_replicas ", together, " does not divide replicas ", role.replicas()));
  }
  if (rule.island() == Proto::ISLAND_REQUIRE && role.resources().devices() == 0 &&
      role.resources().device_share() == 0) {
    return Bad("island is required, but the role asks for no device");
  }
  for (const std::string& other : {rule.near_role(), rule.far_from_role()}) {
    if (other.empty()) continue;
    if (other == role.role()) return Bad(absl::StrCat("it is near or far from itself: use strategy"));
    const bool known = std::any_of(spec.roles().begin(), spec.roles().end(),
                                   [&](const v1::RoleSpec& one) { return one.role() == other; });
    if (!known) return Bad(absl::StrCat("there is no role '", other, "' to be near or far from"));
  }
  if (!rule.near_role().empty() && rule.near_role() == rule.far_from_role()) {
    return Bad(absl::StrCat("it is to be both near and far from '", rule.near_role(), "'"));
  }
  return absl::OkStatus();
}

// Each role is placed after the one it is near to.
absl::Status CheckNoCircle(const v1::JobSpec& spec) {
  std::map<std::string, std::string> near;
  for (const v1::RoleSpec& role : spec.roles()) near[role.role()] = role.placement().near_role();
  for (const auto& [start, first] : near) {
    std::string at = first;
    for (size_t steps = 0; steps < near.size() && !at.empty() && at != start; ++steps) at = near[at];
    if (at == start) return Bad(absl::StrCat("role '", start, "': it is near a role that is, in the end, near it"));
  }
  return absl::OkStatus();
}

// Roles that take turns share slots, which lie where one rule says.
absl::Status CheckShared(const v1::JobSpec& spec) {
  std::map<std::string, const v1::RoleSpec*> rules;
  for (const v1::RoleSpec& role : spec.roles()) {
    std::shared_ptr<const PlacementRule> rule = PlacementRule::FromProto(role.placement());
    if (role.colocation_group().empty() || rule == nullptr) continue;
    auto [it, added] = rules.emplace(role.colocation_group(), &role);
    if (added || *PlacementRule::FromProto(it->second->placement()) == *rule) continue;
    return Bad(absl::StrCat("roles ", it->second->role(), " and ", role.role(), " take turns in group '",
                            role.colocation_group(), "' but are to be placed differently: give one of them no rule"));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const PlacementRule> PlacementRule::FromProto(const v1::PlacementRule& proto) {
  PlacementRule rule;
  if (proto.strategy() != Proto::STRATEGY_UNSPECIFIED) rule.strategy = proto.strategy();
  rule.per_node = proto.per_node();
  rule.node_labels.insert(proto.node_labels().begin(), proto.node_labels().end());
  rule.not_node_labels.insert(proto.not_node_labels().begin(), proto.not_node_labels().end());
  rule.near_role = proto.near_role();
  rule.far_from_role = proto.far_from_role();
  rule.exclusive_nodes = proto.exclusive_nodes();
  if (proto.island() != Proto::ISLAND_UNSPECIFIED) rule.island = proto.island();
  rule.island_replicas = std::max(1, proto.island_replicas());
  if (rule == PlacementRule()) return nullptr;
  return std::make_shared<const PlacementRule>(std::move(rule));
}

int PlacementRule::together() const {
  if (strategy == Proto::STRICT_PACK) return 0;
  if (per_node > 0) return per_node;
  return island == Proto::ISLAND_ANY ? 1 : island_replicas;
}

std::string PlacementRule::ToString() const {
  std::vector<std::string> parts;
  if (strategy != Proto::PACK) parts.push_back(absl::AsciiStrToLower(Proto::Strategy_Name(strategy)));
  if (per_node > 0) parts.push_back(absl::StrCat(per_node, " per node"));
  if (!node_labels.empty()) parts.push_back("only nodes with " + LabelText(node_labels));
  if (!not_node_labels.empty()) parts.push_back("no nodes with " + LabelText(not_node_labels));
  if (!near_role.empty()) parts.push_back("near " + near_role);
  if (!far_from_role.empty()) parts.push_back("far from " + far_from_role);
  if (exclusive_nodes) parts.emplace_back("on nodes of its own");
  if (island != Proto::ISLAND_ANY) {
    parts.push_back(absl::StrCat(island == Proto::ISLAND_REQUIRE ? "in one island" : "in one island if possible",
                                 island_replicas > 1 ? absl::StrCat(" per ", island_replicas, " replicas") : ""));
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  return text;
}

absl::Status CheckPlacementRules(const v1::JobSpec& spec) {
  for (const v1::RoleSpec& role : spec.roles()) {
    TROUPE_RETURN_IF_ERROR(Annotate(CheckRole(role, spec), absl::StrCat("role '", role.role(), "': placement")));
  }
  TROUPE_RETURN_IF_ERROR(CheckNoCircle(spec));
  return CheckShared(spec);
}

}  // namespace troupe::scheduler
