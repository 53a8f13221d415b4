// SPDX-License-Identifier: Apache-2.0
// Groups: which replicas of a job stand and fall together, and how many of a role there may be. What RoleSpec says of
// it, with its defaults filled in (head.proto). Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "troupe/v1/head.pb.h"

namespace troupe::scheduler {

struct Group {
  v1::GroupPolicy policy = v1::ONE_FOR_ONE;
  std::vector<std::string> roles;
  uint64_t generation = 1;  // Of all_for_one: members that live were granted under this one, or are to be stopped.
  std::string reason;       // Why it is this generation; "" the first one.
};

// By name; a role without one is a group of its own name. Of a checked spec.
std::map<std::string, Group> GroupsOf(const v1::JobSpec& spec);
const std::string& GroupName(const v1::RoleSpec& role);
// Never unspecified.
v1::GroupPolicy PolicyOf(const v1::RoleSpec& role);

// The fewest and the most replicas that a role may have, both allowed.
struct ReplicaBounds {
  int min = 1;
  int max = 1;
};
ReplicaBounds BoundsOf(const v1::RoleSpec& role);
// Replicas that a job starts with where there is room: of an elastic role as many as it may have.
int ReplicasAtStart(const v1::RoleSpec& role);

// INVALID_ARGUMENT names the role, what it says and what is allowed.
absl::Status CheckGroupPolicies(const v1::JobSpec& spec);

// "all_for_one"
const char* PolicyName(v1::GroupPolicy policy);

}  // namespace troupe::scheduler
