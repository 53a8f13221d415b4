// SPDX-License-Identifier: Apache-2.0
// Runs of the simulation: whether one fails, and the smallest variation of it that does.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/cluster_simulation.h"

namespace troupe::simulation {

struct Outcome {
  std::string broken;  // "" nothing.
  std::vector<std::string> script;
  ClusterSimulation::Counts counts;
};
Outcome RunOnce(const Variation& variation);

// Leaves out kinds of faults, then faults at the end, users and nodes, as long as something still breaks: what does may
// become another thing. Requires: `failing` breaks. At most `runs_max` runs.
Variation Shrink(const Variation& failing, int runs_max = 300);

}  // namespace troupe::simulation
