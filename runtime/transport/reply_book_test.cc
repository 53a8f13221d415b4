// SPDX-License-Identifier: Apache-2.0
// Calls that may be repeated: the book by hand, and under seeds between a caller and a receiver whose connections lose,
// delay and outlive what they carry.
#include "runtime/transport/reply_book.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace troupe {
namespace {

using Verdict = ReplyBook::Verdict;

Monotonic At(int64_t ms) { return Monotonic::FromNanoseconds(ms * 1'000'000); }
RepeatKey Call(uint64_t caller, uint64_t number, uint64_t line = 1, uint64_t settled = 0) {
  return {caller, number, line, settled};
}

TEST_CASE("ReplyBook: a repeat of a call waits for its reply or gets it, until the ack", "[session]") {
  ReplyBook book({.unacked_max = 2, .bytes_max = 10});
  std::string sent;
  auto to = [&sent](const char* where) {
    return [&sent, where](const absl::StatusOr<std::string>& reply) { sent += where + reply.value_or("error") + " "; };
  };
  auto begin = [&](const RepeatKey& call, int64_t deadline_ms, int64_t now_ms, const char* where) {
    return book.Begin(call, At(deadline_ms), At(now_ms), to(where));
  };
  CHECK(begin(Call(1, 1), 100, 0, "no line").verdict == Verdict::kStale);
  for (uint64_t caller = 1; caller <= 4; ++caller) REQUIRE(book.BeginLine(caller, 1, At(0)));
  REQUIRE(begin(Call(1, 1), 100, 0, "a:").verdict == Verdict::kRun);
  REQUIRE(begin(Call(1, 1), 100, 0, "b:").verdict == Verdict::kWait);
  book.Finish({1, 1}, std::string("x"))(std::string("x"));
  CHECK(sent == "b:x ");  // To where it was asked for last.
  CHECK_FALSE(book.Finish({1, 1}, std::string("y")));
  ReplyBook::Begun known = begin(Call(1, 1), 100, 0, "c:");
  CHECK(known.verdict == Verdict::kKnown);
  CHECK(known.reply->value() == "x");

  REQUIRE(begin(Call(1, 2), 50, 0, "d:").verdict == Verdict::kRun);
  CHECK(begin(Call(1, 3), 100, 0, "e:").verdict == Verdict::kRefused);
  CHECK(begin(Call(2, 1), 100, 0, "f:").verdict == Verdict::kRun);
  book.Acknowledge(Call(1, 1));
  book.Acknowledge(Call(1, 1));
  CHECK(begin(Call(1, 3), 100, 0, "e:").verdict == Verdict::kRun);
  // Over the bound in bytes nothing new is begun.
  (void)book.Finish({1, 3}, std::string(11, 'x'));
  CHECK(book.bytes() == 11);
  CHECK(begin(Call(3, 1), 100, 50, "h:").verdict == Verdict::kRefused);
  CHECK(begin(Call(4, 1), 300, 200, "i:").verdict == Verdict::kRun);  // That reply's time is over.
  CHECK(book.bytes() == 0);
}

TEST_CASE("ReplyBook: a call that has run does not run again after its time, and settled ones are forgotten",
          "[session]") {
  ReplyBook book;
  REQUIRE(book.BeginLine(1, 1, At(0)));
  for (uint64_t number : {5, 6, 7}) {
    REQUIRE(book.Begin(Call(1, number), At(100), At(0), nullptr).verdict == Verdict::kRun);
  }
  (void)book.Finish({1, 5}, std::string("x"));
  CHECK(book.Begin(Call(1, 5), At(300), At(200), nullptr).verdict == Verdict::kForgotten);
  CHECK(book.Begin(Call(1, 6), At(300), At(200), nullptr).verdict == Verdict::kWait);  // It still runs.
  CHECK(book.bytes() == 0);
  CHECK(book.Begin(Call(1, 8, 1, 7), At(300), At(200), nullptr).verdict == Verdict::kRun);
  CHECK(book.size() == 2);
  CHECK(book.Begin(Call(1, 6), At(300), At(200), nullptr).verdict == Verdict::kForgotten);
  CHECK(book.Begin(Call(1, 3), At(300), At(200), nullptr).verdict == Verdict::kForgotten);
  // A newer line: what the older one brings is not looked at. When the last one ends, what is late is but a number.
  REQUIRE(book.BeginLine(1, 2, At(200)));
  CHECK(book.Begin(Call(1, 9, 1), At(300), At(200), nullptr).verdict == Verdict::kStale);
  CHECK(book.Begin(Call(1, 9, 2), At(300), At(200), nullptr).verdict == Verdict::kRun);
  book.EndLine(1, At(250));
  CHECK(book.size() == 3);
  book.EndLine(1, At(350));
  CHECK(book.size() == 0);
  REQUIRE(book.BeginLine(1, 3, At(400)));
  CHECK(book.Begin(Call(1, 9, 3), At(500), At(400), nullptr).verdict == Verdict::kForgotten);
  CHECK(book.Begin(Call(1, 10, 3), At(500), At(400), nullptr).verdict == Verdict::kRun);
  CHECK(book.size() == 1);
}

TEST_CASE("ReplyBook: callers that are gone make place, those last of whom a call may still come", "[session]") {
  ReplyBook book({.callers_max = 3, .away_min = absl::Milliseconds(100)});
  for (uint64_t caller : {1, 2, 3}) REQUIRE(book.BeginLine(caller, 1, At(0)));
  CHECK_FALSE(book.BeginLine(4, 1, At(0)));
  REQUIRE(book.Begin(Call(1, 1), At(10), At(0), nullptr).verdict == Verdict::kRun);
  REQUIRE(book.Begin(Call(2, 1), At(10), At(0), nullptr).verdict == Verdict::kRun);
  book.Acknowledge(Call(2, 1));
  book.EndLine(1, At(20));
  CHECK_FALSE(book.BeginLine(4, 1, At(20)));
  book.EndLine(2, At(20));
  CHECK(book.BeginLine(4, 1, At(20)));  // In the place of 2.
  CHECK_FALSE(book.BeginLine(5, 1, At(119)));
  CHECK(book.BeginLine(5, 1, At(120)));
  CHECK(book.callers() == 3);
}

// A caller, a receiver, and the lines between them, each first in first out. A line that the caller has left may still
// bring what is on it, for long, and be heard of first when later ones were.
struct World {
  explicit World(uint64_t seed) : random(seed) {}
  struct Open {
    int64_t deadline = 0;
    int retries = 3;
    uint64_t line = 0;
  };
  struct Message {
    bool is_ack = false;
    RepeatKey key;
    int64_t timeout = 0;
  };
  struct Line {
    std::deque<Message> forth;
    std::deque<std::pair<uint64_t, std::string>> back;
    bool begun = false, over = false;
  };

  std::mt19937_64 random;
  ReplyBook book{{.unacked_max = 64, .bytes_max = 400}};
  int64_t now = 0;
  uint64_t made = 0, line = 1;
  std::map<uint64_t, Open> open;
  std::map<uint64_t, Line> lines;
  std::vector<uint64_t> running;
  std::map<uint64_t, int> runs, answers;
  std::map<Verdict, int> verdicts;
  bool healed = false;

  uint64_t Below(uint64_t bound) { return random() % bound; }
  RepeatKey KeyOf(uint64_t number) const { return {1, number, line, open.empty() ? made + 1 : open.begin()->first}; }

  void Make() {
    const uint64_t number = ++made;
    open[number] = {now + 1 + static_cast<int64_t>(Below(200)), 3, line};
    lines[line].forth.push_back({false, KeyOf(number), open[number].deadline - now});
  }
  // Answered, however: it is not sent again.
  void Close(uint64_t number) {
    auto found = open.find(number);
    if (found == open.end()) return;
    bool here = found->second.line == line;
    ++answers[number];
    open.erase(found);
    if (here) lines[line].forth.push_back({true, KeyOf(number), 0});
  }
  void Break() {
    ++line;
    for (auto it = open.begin(); it != open.end();) {
      auto next = std::next(it);
      if (it->second.retries-- == 0 || it->second.deadline <= now) {
        Close(it->first);
      } else {
        it->second.line = line;
      }
      it = next;
    }
    for (auto& [number, call] : open) lines[line].forth.push_back({false, KeyOf(number), call.deadline - now});
  }
  void Deliver(uint64_t id, Line& on) {
    Message message = on.forth.front();
    on.forth.pop_front();
    if (!std::exchange(on.begun, true)) REQUIRE(book.BeginLine(1, id, At(now)));
    if (message.is_ack) return book.Acknowledge(message.key);
    auto to = [this, id, number = message.key.number](const absl::StatusOr<std::string>& reply) {
      lines[id].back.emplace_back(number, *reply);
    };
    ReplyBook::Begun begun = book.Begin(message.key, At(now + message.timeout), At(now), to);
    ++verdicts[begun.verdict];
    if (begun.verdict == Verdict::kRun) {
      ++runs[message.key.number];
      REQUIRE(runs[message.key.number] == 1);  // ONCE-1
      running.push_back(message.key.number);
    } else if (begun.verdict == Verdict::kKnown) {
      to(*begun.reply);
    } else if (begun.verdict != Verdict::kWait && begun.verdict != Verdict::kStale) {
      to(std::string("refused"));
    }
  }
  void Answer(uint64_t id, Line& on) {
    auto [number, reply] = on.back.front();
    on.back.pop_front();
    if (id != line || open.count(number) == 0) return;
    REQUIRE((reply == "refused" || (reply == "result " + std::to_string(number) && runs[number] == 1)));
    Close(number);
  }
  void Finish() {
    if (running.empty()) return;
    std::swap(running[Below(running.size())], running.back());
    const uint64_t number = running.back();
    running.pop_back();
    std::string reply = "result " + std::to_string(number);
    if (ReplyCallback to = book.Finish({1, number}, reply)) to(reply);
  }
  void Step() {
    now += static_cast<int64_t>(Below(3));
    const uint64_t draw = Below(100);
    auto at = std::next(lines.begin(), static_cast<int64_t>(Below(lines.size())));
    if (draw < 20 && !healed) return Make();
    if (draw < 22 && !healed) return Break();
    if (draw < 24 && at->first != line) {  // It is over: what is on it is lost.
      if (at->second.begun) book.EndLine(1, At(now));
      return void(lines.erase(at));
    }
    if (draw < 60) return at->second.forth.empty() ? void() : Deliver(at->first, at->second);
    if (draw < 80) return at->second.back.empty() ? void() : Answer(at->first, at->second);
    if (draw < 95) return Finish();
    for (auto it = open.begin(); it != open.end();) {
      auto next = std::next(it);
      if (it->second.deadline <= now) Close(it->first);
      it = next;
    }
  }
};

TEST_CASE("ReplyBook: whatever lines lose, delay or bring late, a call runs once at most, and nothing stays",
          "[session]") {
  std::map<Verdict, int> verdicts;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    World world(seed);
    world.lines[1];
    for (int step = 0; step < 3000; ++step) {
      world.Step();
      REQUIRE(world.book.bytes() <= 400 + 64 * std::string("result 9999").size());
      REQUIRE(world.book.size() <= 64);
    }
    world.healed = true;
    for (int step = 0; step < 20'000 && !(world.open.empty() && world.running.empty()); ++step) world.Step();
    REQUIRE(world.open.empty());
    for (uint64_t number = 1; number <= world.made; ++number) REQUIRE(world.answers[number] == 1);
    // One more call, whose ack says that all is settled.
    world.Make();
    world.Close(world.made);
    while (!world.lines[world.line].forth.empty()) world.Deliver(world.line, world.lines[world.line]);
    CHECK(world.book.size() == 0);
    CHECK(world.book.bytes() == 0);
    CHECK(world.book.callers() == 1);
    for (const auto& [verdict, count] : world.verdicts) verdicts[verdict] += count;
  }
  CHECK(verdicts[Verdict::kRun] > 20'000);
  for (Verdict verdict : {Verdict::kWait, Verdict::kKnown, Verdict::kForgotten, Verdict::kStale}) {
    CHECK(verdicts[verdict] > 100);
  }
}

}  // namespace
}  // namespace troupe
