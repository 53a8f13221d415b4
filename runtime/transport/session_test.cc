// SPDX-License-Identifier: Apache-2.0
// The bookkeeping of calls: the call table and the replies, without clocks, threads or sockets.
#include <catch2/catch.hpp>

#include "runtime/transport/call_table.h"
#include "runtime/transport/reply_book.h"

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

TEST_CASE("ReplyBook: a repeat of a call waits for its reply or gets it, until the ack or the deadline", "[session]") {
  ReplyBook book({.unacked_max = 2, .bytes_max = 10});
  std::string sent;
  auto to = [&sent](const char* where) {
    return [&sent, where](const absl::StatusOr<std::string>& reply) { sent += where + reply.value_or("error") + " "; };
  };
  using Verdict = ReplyBook::Verdict;
  REQUIRE(book.Begin({1, 1}, At(100), At(0), to("a:")).verdict == Verdict::kRun);
  REQUIRE(book.Begin({1, 1}, At(100), At(0), to("b:")).verdict == Verdict::kWait);
  book.Finish({1, 1}, std::string("x"))(std::string("x"));
  CHECK(sent == "b:x ");  // To where it was asked for last.
  CHECK_FALSE(book.Finish({1, 1}, std::string("y")));
  ReplyBook::Begun known = book.Begin({1, 1}, At(100), At(0), to("c:"));
  CHECK(known.verdict == Verdict::kKnown);
  CHECK(known.reply->value() == "x");

  REQUIRE(book.Begin({1, 2}, At(50), At(0), to("d:")).verdict == Verdict::kRun);
  CHECK(book.Begin({1, 3}, At(100), At(0), to("e:")).verdict == Verdict::kRefused);
  CHECK(book.Begin({2, 1}, At(100), At(0), to("f:")).verdict == Verdict::kRun);
  CHECK(book.Begin({1, 3}, At(100), At(50), to("e:")).verdict == Verdict::kRun);  // (1, 2) is past its deadline.
  CHECK_FALSE(book.Finish({1, 2}, std::string("late")));
  book.Acknowledge({1, 1});
  book.Acknowledge({1, 1});
  CHECK(book.Begin({1, 1}, At(100), At(50), to("g:")).verdict == Verdict::kRun);
  // Over the bound in bytes nothing new is begun.
  (void)book.Finish({1, 1}, std::string(11, 'x'));
  CHECK(book.bytes() == 11);
  CHECK(book.Begin({3, 1}, At(100), At(50), to("h:")).verdict == Verdict::kRefused);
  CHECK(book.Begin({4, 1}, At(300), At(200), to("i:")).verdict == Verdict::kRun);
  CHECK(book.size() == 1);
  CHECK(book.bytes() == 0);
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
