// SPDX-License-Identifier: Apache-2.0
#include "runtime/testing/simulation.h"

#include <catch2/catch.hpp>
#include <set>

#include "runtime/actor/call_error.h"

namespace troupe_test {

using troupe::Ref;
using troupe::Task;

class Log : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  void Append(const std::string& line) { text_ += line + " "; }
  std::string Text() const { return text_; }
  void Throw() { throw std::runtime_error("broken inside"); }
  troupe::Stream<int64_t> Count(int64_t n) {
    for (int64_t i = 0; i < n; ++i) co_yield i;
    co_return absl::OkStatus();
  }
  void StartClock() {
    context_->Every(absl::Minutes(1), [this] { text_ += "tick "; });
  }
  int64_t Restarts() const { return context_->restarts(); }

 private:
  std::string text_;
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Log, TROUPE_METHODS(Append, Text, Throw, Count, StartClock, Restarts), TROUPE_INIT());

class Writer : public troupe::Actor {
 public:
  Writer(std::string name, Ref<Log> log) : name_(std::move(name)), log_(std::move(log)) {}
  void Write(int64_t n) {
    for (int64_t i = 0; i < n; ++i) (void)log_.Send<&Log::Append>(name_ + std::to_string(i));
  }
  absl::StatusOr<std::string> BlockForText() { return log_.Call<&Log::Text>().Get(); }
  Task<std::string> AwaitText() { co_return co_await log_.WithTimeout(absl::Hours(1)).Call<&Log::Text>(); }

 private:
  const std::string name_;
  Ref<Log> log_;
};
TROUPE_ACTOR(Writer, TROUPE_METHODS(Write, BlockForText, AwaitText), TROUPE_INIT(std::string, Ref<Log>));

// Notes which of its monitors were told.
class Watcher : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  int64_t Watch(Ref<Log> log, const std::string& note) {
    return static_cast<int64_t>(context_->Monitor(
        log, [this, note](const troupe::ActorLife&, const troupe::v1::ExitCause&) { seen_ += note + " "; }));
  }
  void Forget(int64_t id) { context_->Demonitor(static_cast<troupe::ActorContext::MonitorId>(id)); }
  std::string Seen() const { return seen_; }

 private:
  std::string seen_;
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Watcher, TROUPE_METHODS(Watch, Forget, Seen), TROUPE_INIT());

}  // namespace troupe_test

namespace troupe::testing {
namespace {

using troupe_test::Log;
using troupe_test::Watcher;
using troupe_test::Writer;

// Two writers write to one log; what it holds, and the trace.
std::pair<std::string, std::string> Race(uint64_t seed) {
  Simulation simulation({.seed = seed});
  Ref<Log> log = simulation.Spawn<Log>({.name = "log"}).value();
  Ref<Writer> a = simulation.Spawn<Writer>({.name = "a"}, "a", log).value();
  Ref<Writer> b = simulation.Spawn<Writer>({.name = "b"}, "b", log).value();
  REQUIRE(a.Send<&Writer::Write>(3).ok());
  REQUIRE(b.Send<&Writer::Write>(3).ok());
  simulation.Run();
  return {log.Call<&Log::Text>().Get().value(), simulation.trace()};
}

TEST_CASE("Simulation: a seed repeats its run; seeds differ; each sender's order is kept", "[simulation]") {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    auto [text, trace] = Race(seed);
    CHECK(Race(seed) == std::pair(text, trace));
    seen.insert(text);
    for (const char* name : {"a", "b"}) {
      size_t at = 0;
      for (int i = 0; i < 3; ++i) {
        at = text.find(name + std::to_string(i), at);
        REQUIRE(at != std::string::npos);
      }
    }
  }
  CHECK(seen.size() > 5);
}

TEST_CASE("Simulation: time is virtual, for timers, deadlines and waits", "[simulation]") {
  Simulation simulation;
  Ref<Log> log = simulation.Spawn<Log>({.name = "log"}).value();
  REQUIRE(log.Call<&Log::StartClock>().Get().ok());
  Monotonic start = simulation.Now();
  simulation.Advance(absl::Minutes(3) + absl::Seconds(1));
  CHECK(simulation.Now() - start == absl::Minutes(3) + absl::Seconds(1));
  CHECK(log.Call<&Log::Text>().Get().value() == "tick tick tick ");

  Future<std::string> lost = log.WithTimeout(absl::Hours(2)).Call<&Log::Text>();
  CHECK(lost.Get(simulation.Now()).ok());  // It is answered before any time passes.
  Promise<void> never;
  Future<void> future = never.TakeFuture();
  Monotonic before = simulation.Now();
  CHECK(future.Get(before + absl::Hours(1)).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(simulation.Now() == before + absl::Hours(1));
}

TEST_CASE("Simulation: Expect delivers that message alone, and says what else is on its way", "[simulation]") {
  Simulation simulation;
  Ref<Log> log = simulation.Spawn<Log>({.name = "log"}).value();
  Ref<Writer> a = simulation.Spawn<Writer>({.name = "a"}, "a", log).value();
  REQUIRE(a.Send<&Writer::Write>(1).ok());
  REQUIRE(log.Send<&Log::Append>("test").ok());
  absl::Status wrong = simulation.Expect<&Log::Append>("a", "log");
  CHECK(wrong.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(wrong.message()).find("test -> a: Writer.Write") != std::string::npos);
  REQUIRE(simulation.Expect<&Writer::Write>("test", "a").ok());
  REQUIRE(simulation.Expect<&Log::Append>("a", "log").ok());
  REQUIRE(simulation.Expect<&Log::Append>("test", "log").ok());
  CHECK(log.Call<&Log::Text>().Get().value() == "a0 test ");
  CHECK(simulation.trace() ==
        "0.000s test -> a: Writer.Write\n0.000s a -> log: Log.Append\n0.000s test -> log: Log.Append\n"
        "0.000s test -> log: Log.Text\n0.000s log -> test: reply of Log.Text\n");
}

TEST_CASE("Simulation: handlers may block and await; others go on meanwhile", "[simulation]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Simulation simulation({.seed = seed});
    Ref<Log> log = simulation.Spawn<Log>({.name = "log"}).value();
    Ref<Writer> a = simulation.Spawn<Writer>({.name = "a"}, "a", log).value();
    Ref<Writer> b = simulation.Spawn<Writer>({.name = "b"}, "b", log).value();
    Future<std::string> blocked = a.Call<&Writer::BlockForText>();
    Future<std::string> awaited = b.Call<&Writer::AwaitText>();
    REQUIRE(log.Send<&Log::Append>("x").ok());
    INFO("seed " << seed);
    CHECK(blocked.Get().ok());
    CHECK(awaited.Get().ok());
    StreamReader<int64_t> numbers = log.Stream<&Log::Count>(200);
    for (int64_t i = 0; i < 200; ++i) REQUIRE(numbers.Next().Get().value() == i);
    CHECK(numbers.Next().Get().value() == std::nullopt);
  }
}

TEST_CASE("Simulation: lost messages and replies end their calls; crashes restart in virtual time", "[simulation]") {
  Simulation simulation;
  RestartOptions restart = {.max = 5, .backoff_initial = absl::Minutes(1), .backoff_max = absl::Minutes(2)};
  Ref<Log> log = simulation.Spawn<Log>({.name = "log", .restart = restart}).value();
  Future<void> lost = log.Call<&Log::Append>("x");
  REQUIRE(simulation.Lose<&Log::Append>("test", "log").ok());
  CHECK(CallErrorKindOf(lost.Get()) == v1::CallError::CALL_UNAVAILABLE);
  Future<void> unanswered = log.Call<&Log::Append>("y");
  REQUIRE(simulation.Expect<&Log::Append>("test", "log").ok());
  REQUIRE(simulation.LoseReply<&Log::Append>("log", "test").ok());
  CHECK(CallErrorKindOf(unanswered.Get()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(log.Call<&Log::Text>().Get().value() == "y ");

  Future<std::string> open = log.Call<&Log::Text>();
  simulation.Crash(log);
  CHECK(CallErrorKindOf(open.Get().status()) == v1::CallError::CALL_DIED);
  simulation.Run();
  Ref<Log> second = simulation.Find<Log>("log").value();
  CHECK(second.Call<&Log::Restarts>().Get().value() == 1);  // The first restart is at once.
  simulation.Crash(second);
  simulation.Run();
  CHECK_FALSE(second.Call<&Log::Text>().Get().ok());
  simulation.Advance(absl::Seconds(59));
  CHECK(simulation.Find<Log>("log").value() == second);
  simulation.Advance(absl::Seconds(2));
  CHECK(simulation.Find<Log>("log")->Call<&Log::Restarts>().Get().value() == 2);
}

TEST_CASE("Monitor: each is told of the end once, now if it has come, and not after Demonitor", "[simulation]") {
  Simulation simulation;
  Ref<Log> log = simulation.Spawn<Log>({.name = "log"}).value();
  Ref<Watcher> watcher = simulation.Spawn<Watcher>({.name = "watcher"}).value();
  int64_t forgotten = watcher.Call<&Watcher::Watch>(log, "forgotten").Get().value();
  REQUIRE(watcher.Call<&Watcher::Watch>(log, "kept").Get().ok());
  REQUIRE(watcher.Call<&Watcher::Forget>(forgotten).Get().ok());
  REQUIRE(watcher.Call<&Watcher::Forget>(forgotten).Get().ok());  // Nothing happens any more.
  simulation.Crash(log);
  simulation.Run();
  CHECK(watcher.Call<&Watcher::Seen>().Get().value() == "kept ");
  REQUIRE(watcher.Call<&Watcher::Watch>(log, "late").Get().ok());
  simulation.Run();
  CHECK(watcher.Call<&Watcher::Seen>().Get().value() == "kept late ");
}

TEST_CASE("Simulation: a wait that nothing can end is told", "[simulation]") {
  Simulation simulation;
  Promise<void> never;
  Future<void> future = never.TakeFuture();
  CHECK(future.Get().code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace troupe::testing
