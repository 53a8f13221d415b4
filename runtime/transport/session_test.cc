// SPDX-License-Identifier: Apache-2.0
// The bookkeeping of calls, without clocks, threads or sockets.
#include <catch2/catch.hpp>

#include "runtime/transport/call_table.h"

namespace troupe {
namespace {

Monotonic At(int64_t ms) { return Monotonic::FromNanoseconds(ms * 1'000'000); }

OpenCall Call(uint64_t stream, const std::string& role, uint64_t incarnation, int64_t deadline_ms, size_t bytes = 1) {
  OpenCall call;
  call.stream = stream;
  call.route = std::make_shared<const CallRoute>(CallRoute{{{JobId("j"), role, 0}, incarnation}, "Method"});
  call.deadline = At(deadline_ms);
  call.bytes = bytes;
  return call;
}

absl::StatusOr<uint64_t> AddTo(CallTable& table, OpenCall call) {
  auto added = std::make_unique<OpenCall>(std::move(call));
  absl::StatusOr<uint64_t> id = table.Add(added);
  CHECK((added == nullptr) == id.ok());  // One that is refused stays the caller's.
  return id;
}

std::vector<uint64_t> Ids(const std::vector<OpenCall>& calls) {
  std::vector<uint64_t> ids;
  for (const OpenCall& call : calls) ids.push_back(call.id);
  return ids;
}

TEST_CASE("CallTable: a call is taken out once, by whichever reason comes first", "[session]") {
  CallTable table;
  uint64_t a = AddTo(table, Call(1, "x", 1, 10)).value();
  uint64_t b = AddTo(table, Call(1, "x", 2, 20)).value();
  uint64_t c = AddTo(table, Call(2, "y", 1, 5)).value();
  uint64_t d = AddTo(table, Call(2, "x", 3, 30)).value();
  CHECK(table.NextDeadline() == At(5));
  CHECK(table.TakeExpired(At(4)).empty());
  CHECK(Ids(table.TakeExpired(At(5))) == std::vector<uint64_t>{c});
  // The death of life 2 ends calls to life 1 too, and not those to life 3.
  CHECK(Ids(table.TakeTarget({{JobId("j"), "x", 0}, 2})) == std::vector<uint64_t>{a, b});
  CHECK(table.Take(a) == nullptr);
  CHECK(table.TakeStream(1).empty());
  CHECK(table.NextDeadline() == At(30));
  CHECK(Ids(table.TakeStream(2)) == std::vector<uint64_t>{d});
  CHECK(table.size() == 0);
  CHECK(table.bytes() == 0);
  CHECK(table.NextDeadline().infinite());
}

TEST_CASE("CallTable: it tells below which number no call is sent again", "[session]") {
  CallTable table;
  auto add = [&table](bool repeats) {
    OpenCall call = Call(1, "x", 1, 10);
    call.acknowledges = repeats;
    return AddTo(table, std::move(call)).value();
  };
  CHECK(table.settled() == 1);
  uint64_t once = add(false), a = add(true), b = add(true);
  CHECK(table.settled() == a);
  table.Take(once);
  OpenCall again = std::move(*table.Take(a));
  CHECK(table.settled() == b);
  table.PutBack(std::move(again));
  CHECK(table.settled() == a);
  table.Take(b);
  CHECK(table.settled() == a);
  table.Take(a);
  CHECK(table.settled() == b + 1);
}

TEST_CASE("CallTable: it is bounded in calls and in bytes", "[session]") {
  CallTable table({.calls_max = 2, .bytes_max = 100});
  REQUIRE(AddTo(table, Call(1, "x", 1, 1, 60)).ok());
  CHECK(AddTo(table, Call(1, "x", 1, 1, 41)).status().code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(AddTo(table, Call(1, "x", 1, 1, 40)).ok());
  CHECK(AddTo(table, Call(1, "x", 1, 1, 0)).status().code() == absl::StatusCode::kResourceExhausted);
  table.TakeExpired(At(1));
  CHECK(AddTo(table, Call(1, "x", 1, 1, 100)).ok());
}

}  // namespace
}  // namespace troupe
