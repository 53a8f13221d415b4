// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/chunk_swarm.h"

#include <algorithm>
#include <catch2/catch.hpp>

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

TEST_CASE("ChunkSwarm: an answer that was lost is made good by the next report", "[object]") {
  ChunkSwarm swarm("home", 100);
  CHECK(swarm.Step({.node = "a", .sequence = 1, .wanted = 100}, At(1)).value().size() == ChunkSwarm::kWindowMax);
  CHECK(swarm.Step({.node = "a", .sequence = 2, .wanted = 100}, At(1)).value().size() == ChunkSwarm::kWindowMax);
  std::vector<ChunkSwarm::Send> sends = swarm.Step({.node = "a", .sequence = 3, .wanted = 100}, At(1)).value();
  std::vector<int64_t> fetching;
  for (const ChunkSwarm::Send& send : sends) fetching.push_back(send.chunk);
  // SWARM-4.
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
