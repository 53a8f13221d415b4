// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/node_holds.h"

#include <catch2/catch.hpp>
#include <random>

namespace troupe {
namespace {

Monotonic At(double seconds) { return Monotonic::FromNanoseconds(static_cast<int64_t>(seconds * 1e9)); }
ObjectId Id(uint64_t n) { return {7, n}; }

TEST_CASE("NodeHolds: says all at first, then what is new at once, and something once a second", "[object]") {
  NodeHolds holds;
  CHECK_FALSE(holds.Next(At(1)).has_value());
  CHECK_FALSE(holds.Add(Id(1), 10));
  NodeHolds::Request first = holds.Next(At(1)).value();
  CHECK(first.all);
  CHECK(first.add == std::vector<std::pair<ObjectId, int64_t>>{{Id(1), 10}});
  CHECK_FALSE(holds.Add(Id(2), 20));
  CHECK_FALSE(holds.Next(At(1)).has_value());  // NHOLD-2.
  CHECK(holds.Answered(true, At(1)) == std::vector<ObjectId>{Id(1)});
  CHECK(holds.Add(Id(1), 10));
  holds.Drop(Id(1));
  NodeHolds::Request second = holds.Next(At(1)).value();
  CHECK_FALSE(second.all);
  CHECK(second.drop == std::vector<ObjectId>{Id(1)});
  CHECK(holds.Answered(true, At(1)) == std::vector<ObjectId>{Id(2)});
  CHECK_FALSE(holds.Next(At(1.5)).has_value());
  CHECK(holds.Next(At(2.1)).value().add.empty());
  // A home that was restarted hears all again.
  CHECK(holds.Answered(false, At(2.1)).empty());
  NodeHolds::Request again = holds.Next(At(2.1)).value();
  CHECK(again.all);
  CHECK(again.add.size() == 1);
  holds.Failed(At(2.2));
  holds.Drop(Id(2));
  CHECK_FALSE(holds.Next(At(2.3)).has_value());
  CHECK(holds.Next(At(3.3)).has_value());
  CHECK(holds.Answered(true, At(3.3)).empty());
  CHECK(holds.idle());
}

TEST_CASE("NodeHolds: under any order of changes, losses and restarts the home ends up with what is held", "[object]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    NodeHolds holds;
    std::set<ObjectId> held, home;
    bool home_knows = false;
    double now = 1;
    for (int step = 0; step < 400; ++step) {
      now += static_cast<double>(random() % 300) / 1000;
      bool quiet = step > 350;
      ObjectId id = Id(random() % 5);
      if (!quiet && random() % 3 == 0) {
        held.insert(id);
        holds.Add(id, 1);
      } else if (!quiet && random() % 3 == 0) {
        held.erase(id);
        holds.Drop(id);
      }
      if (!quiet && random() % 40 == 0) home_knows = false;
      if (!home_knows) home.clear();
      std::optional<NodeHolds::Request> request = holds.Next(At(now));
      if (!request.has_value()) continue;
      bool lost = !quiet && random() % 5 == 0, unheard = lost && random() % 2 == 0;
      bool known = home_knows || request->all;
      if (!unheard && known) {
        home_knows = true;
        if (request->all) home.clear();
        for (const ObjectId& drop : request->drop) home.erase(drop);
        for (const auto& [add, bytes] : request->add) home.insert(add);
      }
      if (lost) {
        holds.Failed(At(now));
      } else {
        holds.Answered(known, At(now));
      }
    }
    INFO("seed " << seed);
    // What it was not told to drop goes with its lease when nothing is held.
    if (!held.empty()) REQUIRE(home == held);
  }
}

}  // namespace
}  // namespace troupe
