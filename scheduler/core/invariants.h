// SPDX-License-Identifier: Apache-2.0
// The invariants of the scheduler's durable state, by id (DESIGN.md lists them). Apply refuses what would break some of
// them; these functions look at all of it, and simulation and tests call them after every step.
#pragma once

#include <string>
#include <vector>

#include "scheduler/core/cluster_state.h"

namespace troupe::scheduler {

// What is broken in one state, a sentence each that begins with the id; empty when all hold.
std::vector<std::string> BrokenInvariants(const ClusterState& state);

// What is broken by going from one state to a later one.
std::vector<std::string> BrokenByChange(const ClusterState& before, const ClusterState& after);

}  // namespace troupe::scheduler
