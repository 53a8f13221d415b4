// SPDX-License-Identifier: Apache-2.0
// Reservations and victims on small clusters, and against trying every choice.
#include "scheduler/core/reservation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace troupe::scheduler {
namespace {

NodeCapacity Node(const std::string& id, int devices) {
  NodeCapacity node;
  node.node = NodeId(id);
  node.total.milli_cpus = 64'000;
  node.total.devices = devices;
  node.device_used.resize(static_cast<size_t>(devices));
  return node;
}

Amount Devices(int count) {
  Amount need;
  need.devices = count;
  return need;
}

std::vector<Slot> Slots(const std::vector<int>& devices) {
  std::vector<Slot> slots;
  for (int count : devices) {
    slots.push_back({{{"work", static_cast<int32_t>(slots.size())}}, Devices(count)});
  }
  return slots;
}

// Takes `count` devices of the node for the holder.
void Hold(Holder& holder, int count, NodeCapacity& node) {
  std::vector<int> devices;
  if (!FitsOn(Devices(count), node, &devices)) return;
  Take(Devices(count), devices, node);
  holder.held.push_back({node.node, Devices(count), devices});
}

TEST_CASE("Reserve: the earliest end that makes room, and nobody who ends later is waited for", "[reservation]") {
  std::vector<NodeCapacity> nodes = {Node("a", 4), Node("b", 4)};
  std::vector<Holder> holders(3);
  for (int i = 0; i < 3; ++i) {
    holders[static_cast<size_t>(i)].job = JobId("j" + std::to_string(i));
    holders[static_cast<size_t>(i)].end_ms = (i + 1) * 100;
  }
  Hold(holders[0], 2, nodes[0]);
  Hold(holders[1], 3, nodes[1]);
  Hold(holders[2], 1, nodes[0]);
  std::optional<Reservation> found = Reserve(JobId("big"), Slots({4}), nodes, holders);
  REQUIRE(found);
  CHECK(found->start_ms == 200);
  CHECK(found->waits_for == std::set<JobId>{JobId("j0"), JobId("j1")});
  CHECK(found->places.size() == 1);
  CHECK(found->places.begin()->first == NodeId("b"));
  CHECK_FALSE(Reserve(JobId("huge"), Slots({5}), nodes, holders));
}

TEST_CASE("Both: what is taken now or later is left out", "[reservation]") {
  NodeCapacity now = Node("a", 2);
  NodeCapacity later = Node("a", 2);
  AddHeld({now.node, Devices(1), {0}}, now);
  Amount cpus;
  cpus.milli_cpus = 60'000;
  AddHeld({later.node, cpus, {}}, later);
  AddHeld({later.node, Devices(1), {1}}, later);
  NodeCapacity both = Both(now, later);
  CHECK(both.Free().milli_cpus == 4'000);
  CHECK(both.Free().devices == 0);
}

// Each set of victims must be enough, and none of it may be spared.
TEST_CASE("ChooseVictims: enough of them and none too many, on 500 random clusters", "[reservation]") {
  std::mt19937_64 random(7);
  int with_victims = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<NodeCapacity> nodes = {Node("a", 4), Node("b", 4), Node("c", 2)};
    std::vector<Holder> holders(5);
    for (size_t i = 0; i < holders.size(); ++i) {
      holders[i].job = JobId("j" + std::to_string(i));
      for (int part = 0; part < 2; ++part) Hold(holders[i], 1 + static_cast<int>(random() % 2), nodes[random() % 3]);
    }
    const std::vector<Slot> slots = Slots({1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 3)});
    auto fits_without = [&](uint64_t gone) {
      FreeCapacity free(nodes);
      for (size_t i = 0; i < holders.size(); ++i) {
        if ((gone >> i & 1) != 0) GiveBackAll(holders[i], free);
      }
      return PlaceAndTake(slots, free).verdict == PlacementVerdict::kPlaced;
    };
    const std::vector<JobId> victims = ChooseVictims(slots, nodes, holders);
    uint64_t gone = 0;
    for (size_t i = 0; i < holders.size(); ++i) {
      if (std::find(victims.begin(), victims.end(), holders[i].job) != victims.end()) gone |= uint64_t{1} << i;
    }
    INFO("round " << round);
    if (victims.empty()) {
      CHECK((fits_without(0) || !fits_without(31)));
      continue;
    }
    ++with_victims;
    CHECK_FALSE(fits_without(0));
    CHECK(fits_without(gone));
    for (size_t i = 0; i < holders.size(); ++i) {
      if ((gone >> i & 1) != 0) CHECK_FALSE(fits_without(gone & ~(uint64_t{1} << i)));
    }
  }
  CHECK(with_victims > 100);
}

}  // namespace
}  // namespace troupe::scheduler
