// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/wait_graph.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/actor/call_error.h"

namespace troupe {
namespace {

ActorLife Life(int32_t replica) { return {{JobId("job"), "a", replica}, 1}; }

TEST_CASE("WaitGraph: the wait that closes a circle is refused and named; others are noted", "[waits]") {
  WaitGraph waits;
  CHECK(CallErrorKindOf(waits.Begin(Life(0), {Life(0)}).status()) == v1::CallError::CALL_DEADLOCK);
  absl::StatusOr<uint64_t> first = waits.Begin(Life(0), {Life(1), Life(2)});
  REQUIRE(first.ok());
  CHECK(waits.Begin(Life(1), {Life(3)}).ok());
  CHECK(waits.Begin(Life(2), {Life(3)}).ok());
  absl::Status circle = waits.Begin(Life(3), {Life(4), Life(0)}).status();
  CHECK(CallErrorKindOf(circle) == v1::CallError::CALL_DEADLOCK);
  CHECK(std::string(circle.message()).find("job/a/3#1 -> job/a/0#1 -> job/a/1#1 -> job/a/3#1") != std::string::npos);
  waits.End(Life(0), *first + 100);  // An end of another wait: nothing happens.
  CHECK_FALSE(waits.Begin(Life(3), {Life(4), Life(0)}).ok());
  waits.End(Life(0), *first);
  CHECK(waits.Begin(Life(3), {Life(4), Life(0)}).ok());
}

TEST_CASE("WaitGraph: many ways to the same actor cost no more than one", "[waits]") {
  WaitGraph waits;
  // Every actor of a layer waits for both of the next: 2^60 ways through.
  for (int32_t layer = 60; layer > 0; --layer) {
    for (int32_t i : {0, 1}) CHECK(waits.Begin(Life(2 * layer + i), {Life(2 * layer + 2), Life(2 * layer + 3)}).ok());
  }
  CHECK(waits.Begin(Life(0), {Life(2), Life(3)}).ok());
  CHECK(CallErrorKindOf(waits.Begin(Life(122), {Life(0)}).status()) == v1::CallError::CALL_DEADLOCK);
}

}  // namespace
}  // namespace troupe
