// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/cpu_pin.h"

#include <catch2/catch.hpp>
#include <optional>

namespace troupe {
namespace {

cpu_set_t Allowed() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof(set), &set) == 0);
  return set;
}

TEST_CASE("CpuPin: a thread stays on one processor for a scope", "[cpu_pin]") {
  const cpu_set_t before = Allowed();
  const int cpu = CurrentCpu();
  REQUIRE(CPU_ISSET(cpu, &before));
  {
    CpuPin pin(cpu);
    cpu_set_t pinned = Allowed();
    CHECK(CPU_COUNT(&pinned) == 1);
    CHECK(CPU_ISSET(cpu, &pinned));
  }
  cpu_set_t after = Allowed();
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("CpuPin: what cannot be is left as it is", "[cpu_pin]") {
  const cpu_set_t before = Allowed();
  for (int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30}) {
    CpuPin pin(cpu);
    cpu_set_t now = Allowed();
    CHECK(CPU_EQUAL(&before, &now));
  }
}

TEST_CASE("CpuPin: processors that the thread was given meanwhile stay", "[cpu_pin]") {
  const cpu_set_t before = Allowed();
  if (CPU_COUNT(&before) < 2) return;  // Nothing to choose from.
  int first = 0, last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(first, &before)) ++first;
  while (!CPU_ISSET(last, &before)) --last;
  cpu_set_t given;
  CPU_ZERO(&given);
  CPU_SET(last, &given);
  {
    CpuPin pin(first);
    REQUIRE(::sched_setaffinity(0, sizeof(given), &given) == 0);
  }
  cpu_set_t after = Allowed();
  CHECK(CPU_EQUAL(&given, &after));
  REQUIRE(::sched_setaffinity(0, sizeof(before), &before) == 0);
}

}  // namespace
}  // namespace troupe
