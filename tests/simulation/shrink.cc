// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/shrink.h"

#include <algorithm>

namespace troupe::simulation {

Outcome RunOnce(const Variation& variation) {
  ClusterSimulation simulation(variation);
  Outcome outcome;
  try {
    simulation.Run();
  } catch (const Broken& broken) {
    outcome.broken = broken.what;
  }
  outcome.script = simulation.script();
  outcome.counts = simulation.counts();
  return outcome;
}

Variation Shrink(const Variation& failing, int runs_max) {
  Variation best = failing;
  auto still_fails = [&](const Variation& smaller) {
    if (smaller == best || --runs_max < 0 || RunOnce(smaller).broken.empty()) return false;
    best = smaller;
    return true;
  };
  auto lower = [&](int Variation::*bound, int least) {
    for (int step = (best.*bound - least + 1) / 2; step > 0; step /= 2) {
      Variation smaller = best;
      smaller.*bound = std::max(least, best.*bound - step);
      while (still_fails(smaller)) smaller.*bound = std::max(least, best.*bound - step);
    }
  };
  best.faults_max = std::min(best.faults_max, 1'000);  // More are not drawn.
  for (Variation before; !(before == best) && runs_max > 0;) {
    before = best;
    for (int kind = 0; kind < ClusterSimulation::kFaultKinds; ++kind) {
      Variation smaller = best;
      smaller.without |= 1u << kind;
      still_fails(smaller);
    }
    lower(&Variation::faults_max, 0);
    lower(&Variation::users_max, 1);
    lower(&Variation::nodes_max, 1);
  }
  return best;
}

}  // namespace troupe::simulation
