// SPDX-License-Identifier: Apache-2.0
// Many seeds of a whole cluster. A failure prints the seed; //tests/simulation:simulate runs it again and shrinks it.
#include "tests/simulation/cluster_simulation.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

namespace troupe::simulation {
namespace {

constexpr uint64_t kSeedsInCi = 300;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

ClusterSimulation::Counts RunSeed(uint64_t seed) {
  ClusterSimulation simulation(seed);
  try {
    simulation.Run();
  } catch (const Broken& broken) {
    FAIL("seed " << seed << ": " << broken.what << " (again: //tests/simulation:simulate --seed " << seed << ")");
  }
  return simulation.counts();
}

TEST_CASE("Simulation: every seed keeps the invariants and every job ends", "[simulation]") {
  uint64_t first = 1;
  uint64_t last = FromEnvironment("TROUPE_SIM_SEEDS", kSeedsInCi);
  ClusterSimulation::Counts all;
  for (uint64_t seed = first; seed < first + last; ++seed) {
    ClusterSimulation::Counts one = RunSeed(seed);
    all.steps += one.steps;
    all.jobs_succeeded += one.jobs_succeeded;
    all.jobs_failed += one.jobs_failed;
    all.jobs_cancelled += one.jobs_cancelled;
    all.jobs_refused += one.jobs_refused;
    all.restarts += one.restarts;
    all.nodes_lost += one.nodes_lost;
    all.heads += one.heads;
  }
  std::cout << last << " seeds: " << all.steps << " steps, jobs " << all.jobs_succeeded << " succeeded, "
            << all.jobs_failed << " failed, " << all.jobs_cancelled << " cancelled, " << all.jobs_refused
            << " refused; " << all.restarts << " workers started, " << all.nodes_lost << " nodes lost, " << all.heads
            << " heads restarted\n";
  if (last < kSeedsInCi) return;
  // The runs are worth something: each kind of thing happened.
  CHECK(all.jobs_succeeded > 100);
  CHECK(all.jobs_failed > 10);
  CHECK(all.jobs_cancelled > 10);
  CHECK(all.nodes_lost > 100);
  CHECK(all.heads > 100);
}

TEST_CASE("Simulation: a seed replays", "[simulation]") {
  for (uint64_t seed : {3, 17, 42}) {
    CHECK(RunSeed(seed).steps == RunSeed(seed).steps);
    CHECK(RunSeed(seed).restarts == RunSeed(seed).restarts);
  }
}

}  // namespace
}  // namespace troupe::simulation
