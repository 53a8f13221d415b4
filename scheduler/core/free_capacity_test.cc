// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/free_capacity.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <tuple>

namespace troupe::scheduler {
namespace {

using Nodes = std::map<NodeId, NodeCapacity>;

// The simple version: all nodes are looked at.
const NodeCapacity* FullestByTrial(const Amount& need, const Nodes& nodes) {
  auto left = [](const NodeCapacity& n) {
    int64_t taken = std::accumulate(n.device_used.begin(), n.device_used.end(), int64_t{0});
    return std::tuple(int64_t{kSharesPerDevice} * n.total.devices - taken, n.total.milli_cpus - n.used_milli_cpus,
                      n.total.memory_bytes - n.used_memory_bytes);
  };
  const NodeCapacity* best = nullptr;
  for (const auto& [id, node] : nodes) {
    if (FitsOn(need, node, nullptr) && (best == nullptr || left(node) < left(*best))) best = &node;
  }
  return best;
}

Amount RandomNeed(std::mt19937& random) {
  Amount need{.milli_cpus = static_cast<int64_t>(random() % 4) * 500,
              .memory_bytes = static_cast<int64_t>(random() % 3) << 30};
  if (random() % 3 == 0) need.devices = 1 + static_cast<int32_t>(random() % 2);
  if (need.devices == 0 && random() % 2 == 0) need.device_shares = 250 * static_cast<int32_t>(1 + random() % 3);
  if (random() % 3 == 0) need.device_kind = random() % 2 == 0 ? "sim" : "cuda";
  return need;
}

NodeCapacity RandomNode(std::mt19937& random, int number) {
  NodeCapacity node{.node = NodeId("n" + std::to_string(number))};
  node.total = {.milli_cpus = 1000 * static_cast<int64_t>(1 + random() % 8),
                .memory_bytes = static_cast<int64_t>(random() % 5) << 30,  // 0: not known.
                .devices = static_cast<int32_t>(random() % 4),
                .device_kind = random() % 2 == 0 ? "sim" : "cuda"};
  node.device_used.resize(static_cast<size_t>(node.total.devices));
  return node;
}

TEST_CASE("FreeCapacity: finds what looking at every node finds, whatever was taken and given back", "[placement]") {
  std::mt19937 random(11);
  FreeCapacity index;
  Nodes nodes;
  struct Held {
    NodeId node;
    Amount need;
    std::vector<int> devices;
  };
  std::vector<Held> held;
  int found_count = 0, none_count = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (nodes.size() < 40 && random() % 8 == 0) {
      NodeCapacity node = RandomNode(random, static_cast<int>(random() % 60));
      std::erase_if(held, [&](const Held& h) { return h.node == node.node; });
      nodes[node.node] = node;
      index.Set(node);
    } else if (!nodes.empty() && random() % 50 == 0) {
      NodeId gone = nodes.begin()->first;
      std::erase_if(held, [&](const Held& h) { return h.node == gone; });
      nodes.erase(gone);
      index.Remove(gone);
    } else if (!held.empty() && random() % 3 == 0) {
      std::swap(held[random() % held.size()], held.back());
      NodeCapacity& node = nodes.at(held.back().node);
      GiveBack(held.back().need, held.back().devices, node);
      index.Set(node);
      held.pop_back();
    }
    const Amount need = RandomNeed(random);
    const NodeCapacity* expected = FullestByTrial(need, nodes);
    const NodeCapacity* found = index.Fullest(need);
    REQUIRE((found == nullptr) == (expected == nullptr));
    REQUIRE((index.Emptiest(need) == nullptr) == (expected == nullptr));
    (found == nullptr ? none_count : found_count)++;
    if (found == nullptr) continue;
    REQUIRE(*found == *expected);
    // The same need several times: as one after the other.
    NodeCapacity before;
    std::vector<std::vector<int>> taken = index.TakeOnFullest(need, 3, before);
    REQUIRE(before == *expected);
    for (const std::vector<int>& devices : taken) {
      REQUIRE(FullestByTrial(need, nodes)->node == before.node);
      Take(need, devices, nodes.at(before.node));
      held.push_back({before.node, need, devices});
    }
    REQUIRE(*index.Find(before.node) == nodes.at(before.node));
  }
  CHECK(found_count > 5000);
  CHECK(none_count > 2000);
  Amount sum;
  for (const NodeCapacity& node : index.All()) {
    REQUIRE(node == nodes.at(node.node));
    sum.milli_cpus += node.Free().milli_cpus;
    sum.memory_bytes += node.Free().memory_bytes;
    sum.devices += node.Free().devices;
  }
  CHECK(index.Sum() == sum);
}

TEST_CASE("FreeCapacity: more kinds of devices than it can tell apart at a glance are told apart", "[placement]") {
  FreeCapacity index;
  for (int i = 0; i < 100; ++i) {
    index.Set({.node = NodeId("n" + std::to_string(i)),
               .total = {.devices = 1, .device_kind = "kind" + std::to_string(i)},
               .device_used = {0}});
  }
  for (int i = 0; i < 100; ++i) {
    const NodeCapacity* found = index.Fullest({.devices = 1, .device_kind = "kind" + std::to_string(i)});
    REQUIRE(found != nullptr);
    CHECK(found->node.value() == "n" + std::to_string(i));
  }
  CHECK(index.Fullest({.devices = 1, .device_kind = "another"}) == nullptr);
}

}  // namespace
}  // namespace troupe::scheduler
