// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/placement.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

namespace troupe::scheduler {
namespace {

NodeCapacity Node(const std::string& id, int64_t milli_cpus, int devices, std::vector<int32_t> used = {}) {
  NodeCapacity node{.node = NodeId(id), .total = {.milli_cpus = milli_cpus, .devices = devices, .device_kind = "sim"}};
  used.resize(static_cast<size_t>(devices));
  node.device_used = std::move(used);
  return node;
}
Slot One(Amount need, int replica = 0) { return {{{"rollout", replica}}, std::move(need)}; }

// Every assignment of slots to nodes: the simple version that Place is tested against.
bool PossibleByTrial(const std::vector<Slot>& slots, size_t next, std::vector<NodeCapacity>& nodes) {
  if (next == slots.size()) return true;
  for (NodeCapacity& node : nodes) {
    std::vector<int> devices;
    if (!FitsOn(slots[next].need, node, &devices)) continue;
    Take(slots[next].need, devices, node);
    bool possible = PossibleByTrial(slots, next + 1, nodes);
    GiveBack(slots[next].need, devices, node);
    if (possible) return true;
  }
  return false;
}

TEST_CASE("Placement: a share lies on one device; what fits only in sum does not fit", "[placement]") {
  std::vector<NodeCapacity> nodes = {Node("n1", 8000, 2, {500, 500})};
  CHECK(Place({One({.device_shares = 750})}, nodes).verdict == PlacementVerdict::kImpossible);
  CHECK(Place({One({.devices = 1})}, nodes).verdict == PlacementVerdict::kImpossible);
  PlacementResult two = Place({One({.device_shares = 500}, 0), One({.device_shares = 500}, 1)}, nodes);
  REQUIRE(two.verdict == PlacementVerdict::kPlaced);
  CHECK(two.placements[0].devices != two.placements[1].devices);
  CHECK(
      Place({One({.device_shares = 750})}, nodes).reason ==
      "rollout/0 asks for 0 cpus, 0.75 of a device on one node; the nearest fit is node n1 with 8 cpus, at most 0.5 of "
      "one device free of 8 cpus, 2 devices (sim)");
}

TEST_CASE("Placement: shares pack on the fullest device, so that whole ones stay free", "[placement]") {
  PlacementResult result = Place({One({.device_shares = 250})}, {Node("n1", 8000, 3, {0, 500, 0})});
  CHECK(result.placements[0].devices == std::vector<int>{1});
}

TEST_CASE("Placement: all slots or none, with the number that would fit", "[placement]") {
  std::vector<Slot> slots = {One({.milli_cpus = 3000}, 0), One({.milli_cpus = 3000}, 1), One({.milli_cpus = 3000}, 2)};
  PlacementResult result = Place(slots, {Node("n1", 4000, 0), Node("n2", 4000, 0)});
  CHECK(result.verdict == PlacementVerdict::kImpossible);
  CHECK(result.placements.empty());
  CHECK(result.reason ==
        "the job asks for 9 cpus in 3 places at once; 2 nodes have 8 cpus free, and the nearest fit is 2 "
        "of the 3 places");
}

TEST_CASE("Placement: another kind of device does not do", "[placement]") {
  CHECK(Place({One({.devices = 1, .device_kind = "cuda"})}, {Node("n1", 8000, 8)}).verdict ==
        PlacementVerdict::kImpossible);
}

TEST_CASE("Placement: what the greedy order misses is found", "[placement]") {
  // Largest first on the fullest node: 6 goes to the 7, 4 to the 8 ... the search must exchange them.
  std::vector<Slot> slots;
  for (int64_t cpus : {5000, 4000, 3000, 3000})
    slots.push_back(One({.milli_cpus = cpus}, static_cast<int>(slots.size())));
  CHECK(Place(slots, {Node("a", 8000, 0), Node("b", 7000, 0)}).verdict == PlacementVerdict::kPlaced);
}

TEST_CASE("Placement: colocated roles share a slot of the largest needs", "[placement]") {
  v1::JobSpec spec;
  for (auto [name, replicas, cpus] : {std::tuple("rollout", 2, 2.0), {"actor", 1, 3.0}}) {
    v1::RoleSpec* role = spec.add_roles();
    role->set_role(name);
    role->set_replicas(replicas);
    role->mutable_resources()->set_cpus(cpus);
    role->set_colocation_group("all");
  }
  std::vector<Slot> slots = SlotsOf(spec);
  REQUIRE(slots.size() == 2);
  CHECK(slots[0].ToString() == "rollout/0 with actor/0");
  CHECK(slots[0].need.milli_cpus == 3000);
  CHECK(slots[1].need.milli_cpus == 2000);
}

TEST_CASE("Placement: agrees with trying every assignment", "[placement]") {
  std::mt19937 random(7);
  int possible_count = 0, impossible_count = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<NodeCapacity> nodes;
    for (int n = 0, count = 1 + static_cast<int>(random() % 3); n < count; ++n) {
      nodes.push_back(
          Node("n" + std::to_string(n), 1000 * static_cast<int64_t>(1 + random() % 6), static_cast<int>(random() % 3)));
      for (int32_t& used : nodes.back().device_used) used = static_cast<int32_t>(random() % 3) * 500;
    }
    std::vector<Slot> slots;
    for (int s = 0, count = 1 + static_cast<int>(random() % 5); s < count; ++s) {
      Amount need{.milli_cpus = static_cast<int64_t>(random() % 4) * 1000};
      if (random() % 3 == 0)
        need.devices = 1;
      else if (random() % 3 == 0)
        need.device_shares = 500;
      slots.push_back(One(need, s));
    }
    bool possible = PossibleByTrial(slots, 0, nodes);
    PlacementResult result = Place(slots, nodes);
    REQUIRE(result.verdict == (possible ? PlacementVerdict::kPlaced : PlacementVerdict::kImpossible));
    (possible ? possible_count : impossible_count)++;
    for (const SlotPlacement& p : result.placements) {
      auto node = std::find_if(nodes.begin(), nodes.end(), [&](const NodeCapacity& n) { return n.node == p.node; });
      Take(slots[static_cast<size_t>(p.slot)].need, p.devices, *node);
      REQUIRE(node->used_milli_cpus <= node->total.milli_cpus);
      for (int32_t used : node->device_used) REQUIRE(used <= kSharesPerDevice);
    }
  }
  CHECK(possible_count > 300);
  CHECK(impossible_count > 300);
}

TEST_CASE("Job spec: absurd values are refused by name", "[placement]") {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.set_output_dir("/tmp/x");
  CHECK(!CheckJobSpec(spec).ok());
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("rollout");
  role->set_actor_class("Rollout");
  role->set_replicas(1);
  CHECK(CheckJobSpec(spec).ok());
  role->mutable_resources()->set_cpus(-1);
  CHECK(std::string(CheckJobSpec(spec).message()) ==
        "role 'rollout': resources: cpus is -1: it must be between 0 and 1000000");
  role->mutable_resources()->set_cpus(1);
  role->mutable_resources()->set_memory_bytes(std::numeric_limits<int64_t>::max());
  CHECK(std::string(CheckJobSpec(spec).message()).find("memory_bytes is 9223372036854775807") != std::string::npos);
  role->mutable_resources()->set_memory_bytes(kMemoryBytesMax);
  CHECK(CheckJobSpec(spec).ok());
  role->mutable_restart()->set_backoff_max_ms(std::numeric_limits<int64_t>::max());
  CHECK(std::string(CheckJobSpec(spec).message()).find("backoff_max_ms is") != std::string::npos);
  role->clear_restart();
  for (const char* variable : {"", "=1", "NAME", "1X=1", "A-B=1", "TROUPE_SEED=1", "CUDA_VISIBLE_DEVICES=0"}) {
    INFO(variable);
    role->clear_environment();
    role->add_environment("GOOD=a=b c");
    CHECK(CheckJobSpec(spec).ok());
    role->add_environment(variable);
    CHECK(std::string(CheckJobSpec(spec).message()).find("environment: ") != std::string::npos);
  }
  role->clear_environment();
  role->add_environment("LONG=" + std::string(kEnvironmentBytesMax, 'x'));
  CHECK(std::string(CheckJobSpec(spec).message()).find("environment has ") != std::string::npos);
  role->clear_environment();
  spec.set_stop_grace_ms(-1);
  CHECK(std::string(CheckJobSpec(spec).message()).find("stop_grace_ms is -1") != std::string::npos);
}

}  // namespace
}  // namespace troupe::scheduler
