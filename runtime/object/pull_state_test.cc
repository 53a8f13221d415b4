// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/pull_state.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

// One pull, step by step.
struct Single {
  explicit Single(int64_t chunks) : state(chunks, "object x of node home", now) { Step(PullTick()); }
  void Step(const PullEvent& event, absl::Duration later = absl::ZeroDuration()) {
    now = now + later;
    fetches.clear();
    for (const PullAction& action : state.Step(event, now)) {
      if (const auto* fetch = std::get_if<FetchChunk>(&action)) fetches.push_back(*fetch);
      if (const auto* ask = std::get_if<AskPlan>(&action)) asked = ask->report;
      if (const auto* end = std::get_if<PullEnded>(&action)) ended = end->status;
    }
  }
  void Plan(std::vector<int64_t> chunks, std::vector<std::string> others = {}) {
    PlanCame plan;
    for (int64_t chunk : chunks) plan.fetches.push_back({chunk, {"home", "home"}, 7});
    for (const std::string& other : others) plan.others.push_back({other, other});
    Step(plan);
  }
  void Fail(const absl::Status& status) { Step(PlanFailed{status}); }

  Monotonic now = Monotonic::FromNanoseconds(1'000'000'000);
  PullState state;
  std::vector<FetchChunk> fetches;  // Of the last step.
  ChunkSwarm::Report asked;         // Last.
  std::optional<absl::Status> ended;
};

TEST_CASE("PullState: a home that cannot be reached may come back; others are asked when it is away for long",
          "[object]") {
  for (const absl::Status& away : {absl::UnavailableError(""), absl::DeadlineExceededError(""), absl::AbortedError(""),
                                   absl::CancelledError("")}) {
    INFO(away);
    Single pull(2);
    pull.Plan({}, {"b"});
    for (int i = 0; i < 2; ++i) pull.Fail(away);
    pull.Plan({}, {"b"});
    for (int i = 0; i < PullState::kHomeFailures - 1; ++i) {
      pull.Fail(away);
      CHECK(pull.fetches.empty());
    }
    pull.Fail(away);
    REQUIRE(pull.fetches.size() == 2);
    CHECK(pull.fetches[0].source.node == "b");
    CHECK_FALSE(pull.fetches[0].crc.has_value());
    CHECK_FALSE(pull.ended.has_value());
  }
}

TEST_CASE("PullState: a home that refuses is asked for no longer; if it gives again all is as before", "[object]") {
  Single pull(2);
  pull.Plan({}, {"b"});
  pull.Fail(absl::NotFoundError("gone"));
  REQUIRE(pull.fetches.size() == 2);  // From b, at once.
  pull.Plan({});
  pull.Step(PullTick(), PullState::kOrphanStallMax + absl::Seconds(1));
  CHECK_FALSE(pull.ended.has_value());
  pull.Fail(absl::NotFoundError("gone"));
  REQUIRE(pull.ended.has_value());
  CHECK(pull.ended->code() == absl::StatusCode::kNotFound);
}

TEST_CASE("PullState: it ends when nothing has come for long, not when it takes long, and once", "[object]") {
  Single pull(3);
  pull.Plan({0, 1, 2});
  pull.Step(ChunkCame{0}, absl::Seconds(15));
  pull.Step(ChunkCame{1}, absl::Seconds(15));
  pull.Step(PullTick(), PullState::kStallMax);
  CHECK_FALSE(pull.ended.has_value());
  pull.Step(PullTick(), absl::Milliseconds(1));
  REQUIRE(pull.ended.has_value());
  CHECK(pull.ended->code() == absl::StatusCode::kUnavailable);
  pull.ended.reset();
  pull.Step(ChunkCame{2});
  pull.Plan({2});
  CHECK_FALSE(pull.ended.has_value());
  CHECK(pull.fetches.empty());
}

TEST_CASE("PullState: the home is told what has come and failed, and whether the source lacks it", "[object]") {
  Single pull(6);
  pull.Plan({0, 1, 2, 3});
  pull.Step(ChunkCame{0});
  pull.Step(ChunkFailed{1, absl::NotFoundError("")});
  pull.Step(ChunkFailed{2, absl::DataLossError("")});
  pull.Step(ChunkFailed{3, absl::UnavailableError("")});
  uint64_t before = pull.asked.sequence;
  // The answer to the request before is still to come; then all is said in one.
  pull.Plan({4});
  pull.Step(PullTick(), absl::Seconds(1));
  CHECK(pull.asked.sequence == before + 1);
  CHECK(pull.asked.arrived == std::vector<int64_t>{0});
  CHECK(pull.asked.fetching == std::vector<int64_t>{4});
  REQUIRE(pull.asked.failed.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pull.asked.failed[i].chunk == static_cast<int64_t>(i) + 1);
    CHECK(pull.asked.failed[i].source == "home");
    CHECK(pull.asked.failed[i].lost == (i < 2));
  }
  // When a request has failed, what has come is said again.
  pull.Fail(absl::UnavailableError(""));
  pull.Step(PullTick(), absl::Seconds(1));
  CHECK(pull.asked.arrived == std::vector<int64_t>{0});
}

TEST_CASE("PullState: of other nodes only so many are remembered", "[object]") {
  Single pull(2);
  std::vector<std::string> others;
  for (size_t i = 0; i < 2 * PullState::kOthersMax; ++i) others.push_back("n" + std::to_string(i));
  pull.Plan({}, others);
  CHECK(pull.state.others() == PullState::kOthersMax);
  pull.Plan({}, {others[0]});
  CHECK(pull.state.others() == PullState::kOthersMax);
}

TEST_CASE("PullState: what the home says of the object is final when nobody else has it", "[object]") {
  Monotonic now = Monotonic::FromNanoseconds(1'000'000'000);
  PullState state(3, "object x of node home", now);
  REQUIRE(state.Step(PullTick(), now).size() == 1);
  auto actions = state.Step(PlanFailed{absl::NotFoundError("its owner w has ended (killed by signal 9)")}, now);
  REQUIRE(actions.size() == 1);
  absl::Status status = std::get<PullEnded>(actions[0]).status;
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(
      std::string(status.message()) ==
      "0 of 3 chunks came from object x of node home; no other node is known to have it: its owner w has ended (killed "
      "by signal 9)");
}

TEST_CASE("PullState: a plan that makes no sense does no harm", "[object]") {
  Monotonic now = Monotonic::FromNanoseconds(1'000'000'000);
  PullState state(2, "x", now);
  REQUIRE(state.Step(PullTick(), now).size() == 1);
  PlanCame plan;
  for (int64_t chunk : {-1, 2, 1, 1, 1}) plan.fetches.push_back({chunk, {"a", "a"}, 0});
  std::vector<int64_t> fetched;
  for (const PullAction& action : state.Step(plan, now)) {
    if (const auto* fetch = std::get_if<FetchChunk>(&action)) fetched.push_back(fetch->chunk);
  }
  CHECK(fetched == std::vector<int64_t>{1});
  CHECK(state.Step(ChunkCame{0}, now + absl::Milliseconds(1)).empty());
  CHECK(state.arrived() == 0);
  CHECK(state.Step(ChunkFailed{7, absl::DataLossError("")}, now + absl::Milliseconds(2)).empty());
}

TEST_CASE("PullState: a plan of more than was asked for is not followed beyond the window", "[object]") {
  Monotonic now = Monotonic::FromNanoseconds(1'000'000'000);
  PullState state(3 * PullState::kWindow, "x", now);
  REQUIRE(state.Step(PullTick(), now).size() == 1);
  PlanCame plan;
  for (int64_t chunk = 0; chunk < 3 * PullState::kWindow; ++chunk) plan.fetches.push_back({chunk, {"a", "a"}, 0});
  int fetched = 0;
  for (const PullAction& action : state.Step(plan, now)) fetched += std::holds_alternative<FetchChunk>(action);
  CHECK(fetched == PullState::kWindow);
}

}  // namespace
}  // namespace troupe
