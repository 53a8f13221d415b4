// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/chunk_swarm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace troupe {
namespace {

Monotonic At(double seconds) { return Monotonic::FromNanoseconds(static_cast<int64_t>(seconds * 1e9)); }

std::vector<std::string> Sources(const absl::StatusOr<std::vector<ChunkSwarm::Send>>& sends) {
  std::vector<std::string> sources;
  for (const ChunkSwarm::Send& send : sends.value()) sources.push_back(send.source);
  return sources;
}

TEST_CASE("ChunkSwarm: a node that has a chunk sends it on, the home only when nobody else is free", "[object]") {
  ChunkSwarm swarm("home", 1);
  CHECK(Sources(swarm.Step({.node = "a", .sequence = 1, .wanted = 8}, At(1))) == std::vector<std::string>{"home"});
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 1, .wanted = 8}, At(1))) == std::vector<std::string>{"home"});
  // SWARM-2.
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 1, .wanted = 8}, At(1))).empty());
  CHECK(Sources(swarm.Step({.node = "a", .sequence = 2, .arrived = {0}}, At(1))).empty());
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 2, .wanted = 8}, At(1))) == std::vector<std::string>{"a"});
  CHECK(Sources(swarm.Step({.node = "d", .sequence = 1, .wanted = 8}, At(1))) == std::vector<std::string>{"a"});
  CHECK(Sources(swarm.Step({.node = "e", .sequence = 1, .wanted = 8}, At(1))).empty());
  CHECK(swarm.IsFetching("e"));
  CHECK(swarm.IsFetching("a"));
}

TEST_CASE("ChunkSwarm: who leaves or is silent gives its place back, and what it was sending is sent by others",
          "[object]") {
  ChunkSwarm swarm("home", 1);
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .wanted = 1}, At(1)).ok());
  REQUIRE(swarm.Step({.node = "a", .sequence = 2, .arrived = {0}}, At(1)).ok());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 1, .wanted = 1}, At(1))) == std::vector<std::string>{"a"});
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 1, .wanted = 1}, At(1))) == std::vector<std::string>{"a"});
  CHECK(swarm.Step({.node = "a", .sequence = 3, .leaves = true}, At(2)).value().empty());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 2, .wanted = 1}, At(3))) == std::vector<std::string>{"home"});
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 2, .wanted = 1}, At(3))) == std::vector<std::string>{"home"});
  CHECK(Sources(swarm.Step({.node = "d", .sequence = 1, .wanted = 1}, At(3))).empty());
  // b and c are silent.
  CHECK(Sources(swarm.Step({.node = "d", .sequence = 2, .wanted = 1}, At(20))) == std::vector<std::string>{"home"});
  CHECK(swarm.Nodes() == std::vector<std::string>{"d"});
}

TEST_CASE("ChunkSwarm: a source that failed is not named again for a while; one without the chunk not at all",
          "[object]") {
  ChunkSwarm swarm("home", 1);
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .wanted = 1}, At(1)).ok());
  REQUIRE(swarm.Step({.node = "a", .sequence = 2, .arrived = {0}}, At(1)).ok());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 1, .wanted = 1}, At(1))) == std::vector<std::string>{"a"});
  ChunkSwarm::Report failed{.node = "b", .sequence = 2, .failed = {{0, "a", true}}, .wanted = 1};
  CHECK(Sources(swarm.Step(failed, At(1.1))) == std::vector<std::string>{"home"});
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 1, .wanted = 1}, At(1.1))) == std::vector<std::string>{"home"});
  failed = {.node = "b", .sequence = 3, .failed = {{0, "home", true}}, .wanted = 1};
  CHECK(Sources(swarm.Step(failed, At(1.2))).empty());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 4, .wanted = 1}, At(2))) == std::vector<std::string>{"home"});
}

TEST_CASE("ChunkSwarm: what a node says twice counts once, and who has all is not fetching", "[object]") {
  ChunkSwarm swarm("home", 2);
  int64_t first = swarm.Step({.node = "a", .sequence = 1, .wanted = 1}, At(1)).value().at(0).chunk;
  std::vector<ChunkSwarm::Send> rest =
      swarm.Step({.node = "a", .sequence = 2, .arrived = {first, first}, .wanted = 8}, At(1)).value();
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].chunk == 1 - first);
  CHECK(swarm.IsFetching("b"));
  CHECK_FALSE(swarm.IsFetching("a"));  // Nobody else is there.
  REQUIRE(swarm.Step({.node = "a", .sequence = 3, .arrived = {0, 1}}, At(1)).ok());
  CHECK_FALSE(swarm.IsFetching("b"));
}

TEST_CASE("ChunkSwarm: a failure is that of the source that it names, and only what is lost there is taken from it",
          "[object]") {
  ChunkSwarm swarm("home", 1);
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .arrived = {0}}, At(1)).ok());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 1, .wanted = 1}, At(1))) == std::vector<std::string>{"a"});
  // Of an earlier attempt: it is on its way from a.
  ChunkSwarm::Report old{.node = "b", .sequence = 2, .fetching = {0}, .failed = {{0, "home", false}}, .wanted = 1};
  CHECK(Sources(swarm.Step(old, At(1.1))).empty());
  ChunkSwarm::Report failed{.node = "b", .sequence = 3, .failed = {{0, "a", false}}, .wanted = 1};
  CHECK(Sources(swarm.Step(failed, At(1.2))).empty());  // Both are avoided for a while.
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 4, .wanted = 1}, At(2))) == std::vector<std::string>{"a"});
}

TEST_CASE("ChunkSwarm: who is silent for a while only is still there; who comes back begins anew", "[object]") {
  ChunkSwarm swarm("home", 1);
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .arrived = {0}}, At(1)).ok());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 1, .wanted = 1}, At(15.9))) == std::vector<std::string>{"a"});
  ChunkSwarm::Report failed{.node = "b", .sequence = 2, .failed = {{0, "a", false}}};
  REQUIRE(swarm.Step(failed, At(15.9)).ok());
  REQUIRE(swarm.Step({.node = "a", .sequence = 2, .leaves = true}, At(15.9)).ok());
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .arrived = {0}}, At(15.9)).ok());
  CHECK(Sources(swarm.Step({.node = "b", .sequence = 3, .wanted = 1}, At(16))) == std::vector<std::string>{"a"});
  // What a was sending before is nothing of its present.
  REQUIRE(swarm.Step({.node = "a", .sequence = 2, .leaves = true}, At(16)).ok());
  REQUIRE(swarm.Step({.node = "a", .sequence = 1, .arrived = {0}}, At(16)).ok());
  REQUIRE(swarm.Step({.node = "b", .sequence = 4, .leaves = true}, At(16)).ok());
  CHECK(Sources(swarm.Step({.node = "c", .sequence = 1, .wanted = 1}, At(16))) == std::vector<std::string>{"a"});
}

// Which of two chunks nodes of many names are sent first: each begins elsewhere when both are as rare.
std::set<int64_t> FirstSent(ChunkSwarm& swarm) {
  std::set<int64_t> chunks;
  for (int i = 0; i < 20; ++i) {
    std::string name = "z" + std::to_string(i);
    std::vector<ChunkSwarm::Send> sends = swarm.Step({.node = name, .sequence = 1, .wanted = 1}, At(1)).value();
    REQUIRE(sends.size() == 1);
    chunks.insert(sends[0].chunk);
    REQUIRE(swarm.Step({.node = name, .sequence = 2, .leaves = true}, At(1)).ok());
  }
  return chunks;
}

TEST_CASE("ChunkSwarm: the rarest chunk is sent first, whatever has come, failed and gone before", "[object]") {
  ChunkSwarm fresh("home", 2);
  CHECK(FirstSent(fresh) == std::set<int64_t>{0, 1});
  CHECK(FirstSent(fresh) == std::set<int64_t>{0, 1});  // Those that left count no more.
  for (int64_t chunk : {int64_t{0}, int64_t{1}}) {
    // It came from elsewhere.
    ChunkSwarm came("home", 2);
    REQUIRE(came.Step({.node = "a", .sequence = 1, .arrived = {chunk}}, At(1)).ok());
    CHECK(FirstSent(came) == std::set<int64_t>{1 - chunk});
    // Who had both has lost it.
    ChunkSwarm lost("home", 2);
    REQUIRE(lost.Step({.node = "a", .sequence = 1, .arrived = {0, 1}}, At(1)).ok());
    REQUIRE(lost.Step({.node = "b", .sequence = 1, .failed = {{chunk, "a", true}}}, At(1)).ok());
    CHECK(FirstSent(lost) == std::set<int64_t>{chunk});
    // Who had it has left.
    REQUIRE(came.Step({.node = "a", .sequence = 2, .leaves = true}, At(1)).ok());
    CHECK(FirstSent(came) == std::set<int64_t>{0, 1});
  }
  // It was on its way from one that has left.
  for (int64_t chunk : {int64_t{0}, int64_t{1}}) {
    ChunkSwarm left("home", 2);
    REQUIRE(left.Step({.node = "a", .sequence = 1, .arrived = {chunk}}, At(1)).ok());
    REQUIRE(left.Step({.node = "b", .sequence = 1, .wanted = 2}, At(1)).value().size() == 2);
    REQUIRE(left.Step({.node = "a", .sequence = 2, .leaves = true}, At(1)).ok());
    CHECK(FirstSent(left) == std::set<int64_t>{chunk});
  }
  // It was on its way, and is not any more; or it is.
  ChunkSwarm ended("home", 2);
  int64_t chunk = ended.Step({.node = "a", .sequence = 1, .wanted = 1}, At(1)).value().at(0).chunk;
  CHECK(FirstSent(ended) == std::set<int64_t>{1 - chunk});
  REQUIRE(ended.Step({.node = "a", .sequence = 2}, At(1)).ok());
  CHECK(FirstSent(ended) == std::set<int64_t>{0, 1});
}

TEST_CASE("ChunkSwarm: an answer that was lost is made good by the next report", "[object]") {
  ChunkSwarm swarm("home", 100);
  CHECK(swarm.Step({.node = "a", .sequence = 1, .wanted = 100}, At(1)).value().size() == ChunkSwarm::kWindowMax);
  CHECK(swarm.Step({.node = "a", .sequence = 2, .wanted = 100}, At(1)).value().size() == ChunkSwarm::kWindowMax);
  std::vector<ChunkSwarm::Send> sends = swarm.Step({.node = "a", .sequence = 3, .wanted = 100}, At(1)).value();
  std::vector<int64_t> fetching;
  for (const ChunkSwarm::Send& send : sends) fetching.push_back(send.chunk);
  // SWARM-4: not even from one that sends nothing yet.
  ChunkSwarm::Report other{.node = "b", .sequence = 1};
  for (int64_t chunk = 0; chunk < 100; ++chunk) other.arrived.push_back(chunk);
  REQUIRE(swarm.Step(other, At(1)).ok());
  CHECK(swarm.Step({.node = "a", .sequence = 4, .fetching = fetching, .wanted = 9}, At(1)).value().empty());
  CHECK(swarm.Step({.node = "a", .sequence = 4, .wanted = 9}, At(1)).status().code() == absl::StatusCode::kAborted);
}

TEST_CASE("ChunkSwarm: reports that cannot be are refused", "[object]") {
  ChunkSwarm swarm("home", 4);
  auto code = [&](ChunkSwarm::Report report) {
    report.sequence = 1;
    return swarm.Step(report, At(1)).status().code();
  };
  CHECK(code({.node = ""}) == absl::StatusCode::kInvalidArgument);
  CHECK(code({.node = "home", .wanted = 1}) == absl::StatusCode::kInvalidArgument);
  CHECK(code({.node = "a", .arrived = {4}}) == absl::StatusCode::kInvalidArgument);
  CHECK(code({.node = "a", .arrived = {-1}}) == absl::StatusCode::kInvalidArgument);
  CHECK(code({.node = "a", .failed = {{7, "home", false}}}) == absl::StatusCode::kInvalidArgument);
  CHECK(code({.node = "a", .fetching = {77, -5}, .failed = {{1, "x", true}}, .wanted = -3}) == absl::StatusCode::kOk);
  for (size_t i = 1; i < ChunkSwarm::kNodesMax; ++i) CHECK(code({.node = std::to_string(i)}) == absl::StatusCode::kOk);
  CHECK(code({.node = "one more"}) == absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace troupe
