// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/cpu_sets.h"

#include <catch2/catch.hpp>

namespace troupe::agent {
namespace {

using Cpus = std::vector<int>;

v1::StartWorker Start(const std::string& role, int replica, double cpus, const std::string& group = "") {
  v1::StartWorker start;
  *start.mutable_actor() = ActorLife{{JobId("job"), role, replica}, 1}.ToProto();
  start.mutable_role()->set_colocation_group(group);
  start.mutable_role()->mutable_resources()->set_cpus(cpus);
  return start;
}

CpuSets Machine() { return CpuSets({0, 1, 2, 3, 4, 5, 6, 7}, {{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}}); }

TEST_CASE("CpuSets: whole processors are given to one worker at a time, and are free again when it has ended",
          "[agent]") {
  CpuSets sets = Machine();
  CHECK(sets.Take(Start("a", 0, 3), {}) == Cpus{0, 1, 2});
  CHECK(sets.Take(Start("a", 1, 4), {}) == Cpus{3, 4, 5, 6});
  // Two more are not there: it runs on all.
  CHECK(sets.Take(Start("b", 0, 2), {}).empty());
  CHECK(sets.Take(Start("b", 1, 1), {}) == Cpus{7});
  sets.Release(ActorLife::FromProto(Start("a", 0, 3).actor()));
  sets.Release(ActorLife::FromProto(Start("a", 0, 3).actor()));
  CHECK(sets.Take(Start("b", 0, 2), {}) == Cpus{0, 1});
}

TEST_CASE("CpuSets: a part of a processor, or none, is on all of them", "[agent]") {
  CpuSets sets = Machine();
  for (double cpus : {0.0, 0.5, 1.5, -1.0, 1e300}) CHECK(sets.Take(Start("a", 0, cpus), {}).empty());
  CHECK(sets.Take(Start("a", 0, 8), {}).size() == 8);
}

TEST_CASE("CpuSets: those near a worker's devices come first", "[agent]") {
  CpuSets sets = Machine();
  CHECK(sets.Take(Start("a", 0, 3), {1}) == Cpus{4, 5, 6});
  CHECK(sets.Take(Start("a", 1, 2), {1, 1}) == Cpus{0, 7});
  CHECK(sets.Take(Start("a", 2, 1), {-1, 9}) == Cpus{1});
  // A NUMA node may have processors that workers may not use.
  CpuSets few({2, 3}, {{0, {0, 1, 2, 3}}});
  CHECK(few.Take(Start("a", 0, 2), {0}) == Cpus{2, 3});
}

TEST_CASE("CpuSets: workers that take turns share their processors until the last has ended", "[agent]") {
  CpuSets sets = Machine();
  CHECK(sets.Take(Start("rollout", 0, 2, "g"), {}) == Cpus{0, 1});
  CHECK(sets.Take(Start("actor", 0, 4, "g"), {}) == Cpus{0, 1, 2, 3});
  CHECK(sets.Take(Start("rollout", 1, 2, "g"), {}) == Cpus{4, 5});
  sets.Release(ActorLife::FromProto(Start("actor", 0, 4, "g").actor()));
  CHECK(sets.Take(Start("other", 0, 3), {}).empty());
  sets.Release(ActorLife::FromProto(Start("rollout", 0, 2, "g").actor()));
  CHECK(sets.Take(Start("other", 0, 3), {}) == Cpus{0, 1, 2});
}

TEST_CASE("CpuSets: what a worker has from the agent before is not given to another one", "[agent]") {
  CpuSets sets = Machine();
  sets.Hold(Start("a", 0, 2), {0, 1});
  sets.Hold(Start("a", 1, 0.5), {});
  CHECK(sets.Take(Start("b", 0, 2), {}) == Cpus{2, 3});
  sets.Release(ActorLife::FromProto(Start("a", 0, 2).actor()));
  CHECK(sets.Take(Start("c", 0, 2), {}) == Cpus{0, 1});
}

}  // namespace
}  // namespace troupe::agent
