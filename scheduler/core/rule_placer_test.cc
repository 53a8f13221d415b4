// SPDX-License-Identifier: Apache-2.0
// Placement by rules: each rule, what contradicts, and random small clusters against trying every way and against an
// independent check of each placement.
#include "scheduler/core/rule_placer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

namespace troupe::scheduler {
namespace {

using Proto = v1::PlacementRule;
using Places = std::vector<std::string>;

NodeCapacity Node(const std::string& id, int cpus, const std::vector<int>& islands = {},
                  const std::map<std::string, std::string>& labels = {}) {
  NodeCapacity node;
  node.node = NodeId(id);
  node.total.milli_cpus = cpus * 1000;
  node.total.devices = static_cast<int32_t>(islands.size());
  node.device_used.resize(islands.size());
  auto facts = std::make_shared<NodeFacts>();
  facts->labels = labels;
  facts->islands = islands;
  facts->device_memory_bytes.assign(islands.size(), int64_t{80} << 30);
  node.facts = facts;
  return node;
}

struct Role {
  std::string name;
  int replicas = 1;
  int devices = 0;
  std::function<void(Proto&)> rule = [](Proto&) {};
};

v1::JobSpec SpecOf(const std::vector<Role>& roles) {
  v1::JobSpec spec;
  spec.set_name("job");
  spec.set_output_dir("/tmp/job");
  for (const Role& one : roles) {
    v1::RoleSpec* role = spec.add_roles();
    role->set_role(one.name);
    role->set_actor_class("Any");
    role->set_replicas(one.replicas);
    role->mutable_resources()->set_cpus(1);
    role->mutable_resources()->set_devices(one.devices);
    one.rule(*role->mutable_placement());
  }
  return spec;
}

PlacementResult PlaceRoles(const std::vector<Role>& roles, const std::vector<NodeCapacity>& nodes) {
  const v1::JobSpec spec = SpecOf(roles);
  INFO(CheckJobSpec(spec).message());
  REQUIRE(CheckJobSpec(spec).ok());
  return Place(SlotsOf(spec), nodes);
}

// The node of each slot.
Places NodesOf(const PlacementResult& result) {
  Places nodes;
  for (const SlotPlacement& p : result.placements) nodes.push_back(p.node.value());
  return nodes;
}

Places Sorted(Places places) {
  std::sort(places.begin(), places.end());
  return places;
}

auto Strategy(Proto::Strategy strategy) {
  return [strategy](Proto& rule) { rule.set_strategy(strategy); };
}

TEST_CASE("Rules: spread takes as many nodes as there are, strict_spread one each or none", "[rules]") {
  const std::vector<NodeCapacity> nodes = {Node("a", 8), Node("b", 4), Node("c", 4)};
  CHECK(Sorted(NodesOf(PlaceRoles({{"r", 4, 0, Strategy(Proto::SPREAD)}}, nodes))) == Places{"a", "a", "b", "c"});
  CHECK(Sorted(NodesOf(PlaceRoles({{"r", 3, 0, Strategy(Proto::STRICT_SPREAD)}}, nodes))) == Places{"a", "b", "c"});
  PlacementResult four = PlaceRoles({{"r", 4, 0, Strategy(Proto::STRICT_SPREAD)}}, nodes);
  CHECK(four.verdict == PlacementVerdict::kImpossible);
  CHECK(four.reason.find("is to go strict_spread: none of 3 nodes is left for it") != std::string::npos);
}

TEST_CASE("Rules: strict_pack is one node for all, per_node as many on each", "[rules]") {
  const std::vector<NodeCapacity> nodes = {Node("a", 2), Node("b", 5), Node("c", 4)};
  CHECK(NodesOf(PlaceRoles({{"r", 5, 0, Strategy(Proto::STRICT_PACK)}}, nodes)) == Places{"b", "b", "b", "b", "b"});
  PlacementResult six = PlaceRoles({{"r", 6, 0, Strategy(Proto::STRICT_PACK)}}, nodes);
  CHECK(six.verdict == PlacementVerdict::kImpossible);
  CHECK(six.reason ==
        "r/0 to r/5 asks for 6 cpus on one node (strict_pack); of 3 nodes that may take it the nearest "
        "fit is b with 5 cpus free of 5 cpus");
  Places two_each = NodesOf(PlaceRoles({{"r", 5, 0, [](Proto& rule) { rule.set_per_node(2); }}}, nodes));
  CHECK(std::set<std::string>(two_each.begin(), two_each.end()).size() == 3);
  CHECK(two_each[0] == two_each[1]);
  CHECK(two_each[2] == two_each[3]);
}

TEST_CASE("Rules: labels choose nodes, and one that no node has is named", "[rules]") {
  const std::vector<NodeCapacity> nodes = {Node("a", 4, {}, {{"zone", "x"}}),
                                           Node("b", 4, {}, {{"zone", "y"}, {"disk", "slow"}}),
                                           Node("c", 4, {}, {{"zone", "y"}})};
  auto labels = [](Proto& rule) {
    (*rule.mutable_node_labels())["zone"] = "y";
    (*rule.mutable_not_node_labels())["disk"] = "slow";
  };
  CHECK(NodesOf(PlaceRoles({{"r", 2, 0, labels}}, nodes)) == Places{"c", "c"});
  PlacementResult none = PlaceRoles({{"r", 1, 0, [](Proto& r) { (*r.mutable_node_labels())["zone"] = "z"; }}}, nodes);
  CHECK(none.verdict == PlacementVerdict::kImpossible);
  CHECK(none.reason == "r/0 asks for nodes with zone=z, and no node has that label");
}

TEST_CASE("Rules: near lies with the other role, far nowhere beside it", "[rules]") {
  const std::vector<NodeCapacity> nodes = {Node("a", 3), Node("b", 3)};
  auto near = [](Proto& rule) { rule.set_near_role("main"); };
  auto far = [](Proto& rule) { rule.set_far_from_role("main"); };
  Places places = NodesOf(PlaceRoles({{"helper", 1, 0, near}, {"main", 2}, {"other", 1, 0, far}}, nodes));
  REQUIRE(places.size() == 4);
  CHECK(places[0] == places[1]);
  CHECK(places[1] == places[2]);
  CHECK(places[3] != places[1]);
  PlacementResult full = PlaceRoles({{"main", 4}, {"other", 1, 0, far}}, nodes);
  CHECK(full.verdict == PlacementVerdict::kImpossible);
}

TEST_CASE("Rules: a job on nodes of its own takes none where others are", "[rules]") {
  std::vector<NodeCapacity> nodes = {Node("a", 4), Node("b", 8)};
  nodes[0].jobs = 1;
  auto alone = [](Proto& rule) { rule.set_exclusive_nodes(true); };
  CHECK(NodesOf(PlaceRoles({{"r", 1, 0, alone}}, nodes)) == Places{"b"});
  nodes[1].jobs = 1;
  CHECK(PlaceRoles({{"r", 1, 0, alone}}, nodes).reason.find("by other jobs") != std::string::npos);
}

TEST_CASE("Rules: a gang lies inside an island, the smallest that takes it", "[rules]") {
  std::vector<NodeCapacity> nodes = {Node("a", 16, {0, 0, 0, 0, 1, 1, 1, 1}),
                                     Node("b", 16, {0, 0, 1, 1, 1, 1, -1, -1})};
  auto island = [](Proto& rule) {
    rule.set_island(Proto::ISLAND_REQUIRE);
    rule.set_island_replicas(2);
  };
  PlacementResult pair = PlaceRoles({{"tp", 2, 1, island}}, nodes);
  REQUIRE(pair.placements.size() == 2);
  CHECK(pair.placements[0].node.value() == "b");
  CHECK(pair.placements[0].devices == std::vector<int>{0});
  CHECK(pair.placements[1].devices == std::vector<int>{1});
  SECTION("stages lie across islands, each gang in one") {
    PlacementResult stages = PlaceRoles({{"tp", 6, 2, island}}, nodes);
    REQUIRE(stages.placements.size() == 6);
    for (size_t i = 0; i < 6; i += 2) {
      std::vector<int> devices = stages.placements[i].devices;
      const std::vector<int>& others = stages.placements[i + 1].devices;
      CHECK(stages.placements[i].node == stages.placements[i + 1].node);
      devices.insert(devices.end(), others.begin(), others.end());
      std::set<int> islands;
      const NodeCapacity& node = stages.placements[i].node.value() == "a" ? nodes[0] : nodes[1];
      for (int device : devices) islands.insert(node.facts->islands[static_cast<size_t>(device)]);
      CHECK(islands.size() == 1);
    }
  }
  SECTION("what is larger than any island is refused with the largest") {
    PlacementResult five = PlaceRoles({{"tp", 1, 5, [](Proto& r) { r.set_island(Proto::ISLAND_REQUIRE); }}}, nodes);
    CHECK(five.verdict == PlacementVerdict::kImpossible);
    CHECK(five.reason.find("the largest island has 4 free devices") != std::string::npos);
  }
  SECTION("where it is only preferred it goes on without") {
    PlacementResult five = PlaceRoles({{"tp", 1, 5, [](Proto& r) { r.set_island(Proto::ISLAND_PREFER); }}}, nodes);
    CHECK(five.verdict == PlacementVerdict::kPlaced);
  }
  SECTION("a lost part goes back to the island of the rest") {
    const v1::JobSpec spec = SpecOf({{"tp", 2, 1, island}});
    const std::vector<Slot> slots = SlotsOf(spec);
    std::vector<int> taken = {6};
    Take(slots[0].need, taken, nodes[0]);
    PlacementResult again = Place({slots[1]}, nodes, {{&slots[0], NodeId("a"), {6}}});
    REQUIRE(again.placements.size() == 1);
    CHECK(again.placements[0].node.value() == "a");
    CHECK(again.placements[0].devices == std::vector<int>{4});
  }
}

TEST_CASE("Placement: device memory and named resources are counted, and what is short is named", "[rules]") {
  std::vector<NodeCapacity> nodes = {Node("a", 8, {-1, -1})};
  nodes[0].total.custom["licence"] = 1'000;
  v1::JobSpec spec = SpecOf({{"r", 3, 0}});
  v1::Resources& need = *spec.mutable_roles(0)->mutable_resources();
  SECTION("shares of a device fit into its memory") {
    need.set_device_share(0.25);
    need.set_device_memory_bytes(int64_t{50} << 30);
    PlacementResult result = Place(SlotsOf(spec), nodes);
    CHECK(result.verdict == PlacementVerdict::kImpossible);
    spec.mutable_roles(0)->set_replicas(2);
    result = Place(SlotsOf(spec), nodes);
    REQUIRE(result.placements.size() == 2);
    CHECK(result.placements[0].devices != result.placements[1].devices);
  }
  SECTION("a whole device has as much as is asked for") {
    spec.mutable_roles(0)->set_replicas(1);
    need.set_devices(1);
    need.set_device_memory_bytes(int64_t{81} << 30);
    CHECK(Place(SlotsOf(spec), nodes).reason.find("1 device with 81 GiB each") != std::string::npos);
    need.set_device_memory_bytes(int64_t{80} << 30);
    CHECK(Place(SlotsOf(spec), nodes).verdict == PlacementVerdict::kPlaced);
  }
  SECTION("named resources are exact sums") {
    (*need.mutable_custom())["licence"] = 0.1;
    spec.mutable_roles(0)->set_replicas(8);
    CHECK(Place(SlotsOf(spec), nodes).verdict == PlacementVerdict::kPlaced);
    (*need.mutable_custom())["licence"] = 0.126;
    CHECK(Place(SlotsOf(spec), nodes).verdict == PlacementVerdict::kImpossible);
    (*need.mutable_custom())["other"] = 1;
    CHECK(Place(SlotsOf(spec), nodes).reason.find("1 other on one node") != std::string::npos);
  }
}

TEST_CASE("Rules: what contradicts itself is refused by name", "[rules]") {
  auto refused = [](std::vector<Role> roles) { return std::string(CheckJobSpec(SpecOf(roles)).message()); };
  CHECK(refused({{"r", 1, 0,
                  [](Proto& r) {
                    (*r.mutable_node_labels())["zone"] = "x";
                    (*r.mutable_not_node_labels())["zone"] = "x";
                  }}}) ==
        "role 'r': placement: the label zone=x is both demanded (node_labels) and forbidden "
        "(not_node_labels)");
  CHECK(refused({{"r", 2, 0,
                  [](Proto& r) {
                    r.set_strategy(Proto::STRICT_PACK);
                    r.set_per_node(2);
                  }}})
            .find("per_node 2 and the strategy strict_pack contradict") != std::string::npos);
  CHECK(refused({{"r", 1, 0, [](Proto& r) { r.set_near_role("q"); }}}).find("no role 'q'") != std::string::npos);
  CHECK(refused(
            {{"a", 1, 0, [](Proto& r) { r.set_near_role("b"); }}, {"b", 1, 0, [](Proto& r) { r.set_near_role("a"); }}})
            .find("in the end, near it") != std::string::npos);
  CHECK(refused({{"a", 1},
                 {"b", 1, 0,
                  [](Proto& r) {
                    r.set_near_role("a");
                    r.set_far_from_role("a");
                  }}})
            .find("both near and far from 'a'") != std::string::npos);
  CHECK(refused({{"r", 3, 1,
                  [](Proto& r) {
                    r.set_island(Proto::ISLAND_PREFER);
                    r.set_island_replicas(2);
                  }}})
            .find("island_replicas 2 does not divide replicas 3") != std::string::npos);
  CHECK(refused({{"r", 1, 0, [](Proto& r) { r.set_island(Proto::ISLAND_REQUIRE); }}}).find("asks for no device") !=
        std::string::npos);
}

// An independent reading of the rules.
std::string Broken(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes,
                   const std::vector<std::string>& places) {
  std::map<std::string, std::map<std::string, int>> by_role;  // role -> node -> count
  std::map<std::string, int> cpus;
  for (size_t i = 0; i < slots.size(); ++i) {
    ++by_role[slots[i].members[0].role][places[i]];
    ++cpus[places[i]];
  }
  for (const NodeCapacity& node : nodes) {
    if (cpus[node.node.value()] * 1000 > node.total.milli_cpus) return "cpus";
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].rule == nullptr) continue;
    const PlacementRule& rule = *slots[i].rule;
    const std::string& role = slots[i].members[0].role;
    if (rule.strategy == Proto::STRICT_SPREAD && by_role[role][places[i]] > 1) return "strict_spread";
    if (rule.strategy == Proto::STRICT_PACK && by_role[role].size() > 1) return "strict_pack";
    if (!rule.near_role.empty() && !by_role[rule.near_role].contains(places[i])) return "near";
    if (!rule.far_from_role.empty() && by_role[rule.far_from_role].contains(places[i])) return "far";
    for (const auto& [key, value] : rule.node_labels) {
      auto node =
          std::find_if(nodes.begin(), nodes.end(), [&](const NodeCapacity& n) { return n.node.value() == places[i]; });
      if (node->facts->labels.at(key) != value) return "label";
    }
    if (rule.per_node > 0) {
      int partly = 0;
      for (const auto& [node, count] : by_role[role]) {
        if (count > rule.per_node) return "per_node";
        partly += count < rule.per_node;
      }
      if (partly > 1) return "per_node";
    }
  }
  return "";
}

bool AnyWay(const std::vector<Slot>& slots, const std::vector<NodeCapacity>& nodes, Places& places) {
  if (places.size() == slots.size()) return Broken(slots, nodes, places).empty();
  for (const NodeCapacity& node : nodes) {
    places.push_back(node.node.value());
    if (AnyWay(slots, nodes, places)) return true;
    places.pop_back();
  }
  return false;
}

TEST_CASE("Rules: on 1,000 random clusters what is placed keeps all rules, and what is impossible is", "[rules]") {
  std::mt19937_64 random(11);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  int placed = 0, impossible = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::vector<NodeCapacity> nodes;
    for (int n = 0; n < 3; ++n) {
      nodes.push_back(
          Node(std::string(1, static_cast<char>('a' + n)), 1 + pick(4), {}, {{"zone", pick(2) == 0 ? "x" : "y"}}));
    }
    auto any_rule = [&](const std::string& other) {
      const int kind = pick(8);
      return [kind, other](Proto& rule) {
        if (kind == 0) rule.set_strategy(Proto::STRICT_SPREAD);
        if (kind == 1) rule.set_strategy(Proto::STRICT_PACK);
        if (kind == 2) rule.set_per_node(2);
        if (kind == 3 && !other.empty()) rule.set_near_role(other);
        if (kind == 4 && !other.empty()) rule.set_far_from_role(other);
        if (kind == 5) (*rule.mutable_node_labels())["zone"] = "x";
        if (kind == 6) rule.set_strategy(Proto::SPREAD);
      };
    };
    const v1::JobSpec spec = SpecOf({{"p", 1 + pick(3), 0, any_rule("q")}, {"q", 1 + pick(3), 0, any_rule("")}});
    const std::vector<Slot> slots = SlotsOf(spec);
    PlacementResult result = Place(slots, nodes);
    INFO("round " << round << ": " << spec.ShortDebugString() << " " << result.reason);
    if (result.verdict == PlacementVerdict::kPlaced) {
      ++placed;
      CHECK(Broken(slots, nodes, NodesOf(result)).empty());
    } else {
      ++impossible;
      CHECK(result.verdict == PlacementVerdict::kImpossible);
      Places places;
      CHECK_FALSE(AnyWay(slots, nodes, places));
    }
  }
  CHECK(placed > 300);
  CHECK(impossible > 100);
}

}  // namespace
}  // namespace troupe::scheduler
