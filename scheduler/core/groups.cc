// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "scheduler/core/slots.h"

namespace troupe::scheduler {
namespace {

absl::Status CheckBounds(const v1::RoleSpec& role) {
  if (role.min_replicas() < 0 || role.max_replicas() < 0 || role.max_replicas() > kReplicasMax) {
    return absl::InvalidArgumentError(absl::StrCat("min_replicas is ", role.min_replicas(), " and max_replicas ",
                                                   role.max_replicas(), ": they must be between 0 and ", kReplicasMax));
  }
  const ReplicaBounds bounds = BoundsOf(role);
  if (role.replicas() >= bounds.min && role.replicas() <= bounds.max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("replicas is ", role.replicas(), ": it must be between min_replicas (",
                                                 bounds.min, ") and max_replicas (", bounds.max, ")"));
}

absl::Status CheckPolicy(const v1::RoleSpec& role) {
  if (!v1::GroupPolicy_IsValid(role.policy())) {
    return absl::InvalidArgumentError("policy is not known: one_for_one, all_for_one and elastic are");
  }
  if (PolicyOf(role) != v1::ELASTIC) return absl::OkStatus();
  if (role.grow_only()) {
    return absl::InvalidArgumentError(
        "policy is elastic, but its replicas hold what others still read: it cannot go on with fewer");
  }
  if (role.role() == "controller") return absl::InvalidArgumentError("policy is elastic: a job has one controller");
  if (role.colocation_group().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("policy is elastic, and the role takes turns with others in '",
                                                 role.colocation_group(),
                                                 "': its number is theirs; give it resources of its own"));
}

}  // namespace

const std::string& GroupName(const v1::RoleSpec& role) { return role.group().empty() ? role.role() : role.group(); }

v1::GroupPolicy PolicyOf(const v1::RoleSpec& role) {
  return role.policy() == v1::GROUP_POLICY_UNSPECIFIED ? v1::ONE_FOR_ONE : role.policy();
}

std::map<std::string, Group> GroupsOf(const v1::JobSpec& spec) {
  std::map<std::string, Group> groups;
  for (const v1::RoleSpec& role : spec.roles()) {
    Group& group = groups[GroupName(role)];
    group.policy = PolicyOf(role);
    group.roles.push_back(role.role());
  }
  return groups;
}

ReplicaBounds BoundsOf(const v1::RoleSpec& role) {
  const bool elastic = PolicyOf(role) == v1::ELASTIC;
  ReplicaBounds bounds{elastic ? role.replicas() : 1, elastic ? role.replicas() : kReplicasMax};
  if (role.min_replicas() > 0) bounds.min = role.min_replicas();
  if (role.max_replicas() > 0) bounds.max = role.max_replicas();
  return bounds;
}

int ReplicasAtStart(const v1::RoleSpec& role) {
  return PolicyOf(role) == v1::ELASTIC ? BoundsOf(role).max : role.replicas();
}

absl::Status CheckGroupPolicies(const v1::JobSpec& spec) {
  std::map<std::string, const v1::RoleSpec*> first;
  int64_t replicas = 0;
  for (const v1::RoleSpec& role : spec.roles()) {
    const std::string where = absl::StrCat("role '", role.role(), "'");
    TROUPE_RETURN_IF_ERROR(Annotate(CheckPolicy(role), where));
    TROUPE_RETURN_IF_ERROR(Annotate(CheckBounds(role), where));
    replicas += ReplicasAtStart(role);
    auto [other, added] = first.emplace(GroupName(role), &role);
    if (added || PolicyOf(*other->second) == PolicyOf(role)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, " has the policy ", PolicyName(PolicyOf(role)), " and role '",
                                                   other->second->role(), "' ", PolicyName(PolicyOf(*other->second)),
                                                   ", but both are of group '", other->first, "': a group has one"));
  }
  if (replicas <= kReplicasMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the roles may grow to ", replicas, " replicas in all: at most ", kReplicasMax));
}

const char* PolicyName(v1::GroupPolicy policy) {
  switch (policy) {
    case v1::ALL_FOR_ONE:
      return "all_for_one";
    case v1::ELASTIC:
      return "elastic";
    default:
      return "one_for_one";
  }
}

}  // namespace troupe::scheduler
