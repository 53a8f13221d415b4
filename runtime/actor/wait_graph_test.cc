// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/wait_graph.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/actor/call_error.h"
#include "runtime/actor/future.h"

namespace troupe {
namespace {

ActorLife Life(int32_t replica) { return {{JobId("job"), "a", replica}, 1}; }

// Calls to those actors, numbered as they are.
std::vector<WaitedCall> To(const std::vector<int32_t>& replicas) {
  std::vector<WaitedCall> calls;
  for (int32_t replica : replicas) calls.push_back({Life(replica), static_cast<uint64_t>(replica)});
  return calls;
}

TEST_CASE("WaitGraph: the wait that closes a circle is refused and named; others are noted", "[waits]") {
  WaitGraph waits;
  CHECK(CallErrorKindOf(waits.Begin(Life(0), To({0})).status()) == v1::CallError::CALL_DEADLOCK);
  absl::StatusOr<uint64_t> first = waits.Begin(Life(0), To({1, 2}));
  REQUIRE(first.ok());
  CHECK(waits.Begin(Life(1), To({3})).ok());
  CHECK(waits.Begin(Life(2), To({3})).ok());
  absl::Status circle = waits.Begin(Life(3), To({4, 0})).status();
  CHECK(CallErrorKindOf(circle) == v1::CallError::CALL_DEADLOCK);
  CHECK(std::string(circle.message()).find("job/a/3#1 -> job/a/0#1 -> job/a/1#1 -> job/a/3#1") != std::string::npos);
  waits.End(Life(0), *first + 100);  // An end of another wait: nothing happens.
  CHECK_FALSE(waits.Begin(Life(3), To({4, 0})).ok());
  waits.End(Life(0), *first);
  CHECK(waits.Begin(Life(3), To({4, 0})).ok());
}

TEST_CASE("WaitGraph: a wait whose gate is set holds nobody, also before its end is told", "[waits]") {
  WaitGraph waits;
  internal::Gate gate;
  uint64_t number = waits.Begin(Life(0), To({1}), &gate).value();
  CHECK_FALSE(waits.Begin(Life(1), To({0})).ok());
  gate.Open();
  CHECK(waits.Begin(Life(1), To({0})).ok());
  waits.End(Life(0), number);
}

TEST_CASE("WaitGraph: many ways to the same actor cost no more than one", "[waits]") {
  WaitGraph waits;
  // Every actor of a layer waits for both of the next: 2^60 ways through.
  for (int32_t layer = 60; layer > 0; --layer) {
    for (int32_t i : {0, 1}) CHECK(waits.Begin(Life(2 * layer + i), To({2 * layer + 2, 2 * layer + 3})).ok());
  }
  CHECK(waits.Begin(Life(0), To({2, 3})).ok());
  CHECK(CallErrorKindOf(waits.Begin(Life(122), To({0})).status()) == v1::CallError::CALL_DEADLOCK);
}

TEST_CASE("WaitGraph: a call that was answered holds nobody, though the wait goes on for others", "[waits]") {
  WaitGraph waits;
  uint64_t number = waits.Begin(Life(0), To({1, 2})).value();
  CHECK_FALSE(waits.Begin(Life(1), To({0})).ok());
  waits.Answered(Life(0), number + 1, 1);
  CHECK_FALSE(waits.Begin(Life(1), To({0})).ok());
  waits.Answered(Life(0), number, 1);
  CHECK(waits.Begin(Life(1), To({0})).ok());
  CHECK_FALSE(waits.Begin(Life(2), To({0})).ok());
  CHECK(waits.Find(Life(0))->calls.size() == 1);
}

TEST_CASE("WaitGraph: it wakes who looks for circles once, until that rests while nobody waits", "[waits]") {
  WaitGraph waits;
  int woken = 0;
  waits.SetWake([&woken] { ++woken; });
  uint64_t first = waits.Begin(Life(0), To({1})).value();
  uint64_t second = waits.Begin(Life(1), To({2})).value();
  CHECK(woken == 1);
  CHECK(waits.Waiting(first) == std::vector<ActorLife>{Life(0)});
  waits.End(Life(0), first);
  CHECK_FALSE(waits.Rest(second));
  waits.End(Life(1), second);
  CHECK_FALSE(waits.Rest(first));  // Somebody has waited since then.
  CHECK(waits.Rest(waits.Begun()));
  CHECK(waits.Begin(Life(3), To({4})).ok());
  CHECK(woken == 2);
}

}  // namespace
}  // namespace troupe
