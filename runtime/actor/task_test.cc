// SPDX-License-Identifier: Apache-2.0
// Tasks, streams, timers, one-way messages, cancels, and waits that would never end.
#include "runtime/actor/task.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "runtime/actor/actor.h"
#include "runtime/actor/actor_host.h"
#include "runtime/actor/call_error.h"
#include "runtime/actor/testing/host_router.h"
#include "runtime/actor/wait.h"
#include "runtime/env/clock.h"

namespace troupe_test {

using troupe::Future;
using troupe::Promise;
using troupe::Ref;
using troupe::Stream;
using troupe::Task;

class Relay : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }

  int64_t Value() const { return value_; }
  void Set(int64_t value) { value_ = value; }
  Future<int64_t> Gate() {
    ++gates_asked;
    return gate_.TakeFuture();
  }
  void OpenGate(int64_t value) { gate_.Set(value); }

  // Adds `more` to what the other says, by a task of its own.
  Task<int64_t> AskAndAdd(Ref<Relay> other, const std::string& more) {
    absl::StatusOr<int64_t> asked = co_await Ask(other);
    if (!asked.ok()) co_return asked.status();
    co_return *asked + std::stoll(more);
  }
  Task<void> AskGate(Ref<Relay> other) {
    absl::StatusOr<int64_t> asked = co_await other.Call<&Relay::Gate>();
    value_ = asked.value_or(-1);
  }
  Task<absl::Status> AskGateReentrant(Ref<Relay> other) {
    absl::StatusOr<int64_t> asked = co_await other.Call<&Relay::Gate>();
    value_ = asked.value_or(-1);
    co_return absl::DataLossError("as asked");
  }
  Task<int64_t> Throw(Ref<Relay> other) {
    (void)co_await other.Call<&Relay::Value>();
    throw std::runtime_error("broken inside");
  }
  absl::StatusOr<int64_t> BlockOn(Ref<Relay> other) { return other.Call<&Relay::Value>().Get(); }
  Task<int64_t> AwaitOn(Ref<Relay> other) { co_return co_await other.Call<&Relay::Value>(); }
  absl::StatusOr<int64_t> BlockOnBlocking(Ref<Relay> other, Ref<Relay> back) {
    return other.Call<&Relay::BlockOn>(back).Get();
  }
  Task<int64_t> AwaitOnAwaiting(Ref<Relay> other, Ref<Relay> back) {
    co_return co_await other.Call<&Relay::AwaitOn>(back);
  }
  Task<int64_t> AwaitReentrant(Ref<Relay> other, Ref<Relay> back) { co_return co_await AwaitOnAwaiting(other, back); }
  absl::Status BlockOnBoth(Ref<Relay> first, Ref<Relay> first_gate, Ref<Relay> second, Ref<Relay> second_gate) {
    std::vector<Future<int64_t>> calls;
    calls.push_back(first.Call<&Relay::AfterGate>(first_gate));
    calls.push_back(second.Call<&Relay::AfterGate>(second_gate));
    return troupe::WaitAll(calls);
  }
  Task<int64_t> AfterGate(Ref<Relay> gate) { co_return co_await gate.Call<&Relay::Gate>(); }

  Stream<int64_t> Count(int64_t n, bool fail) {
    struct Guard {
      ~Guard() { ++streams_ended; }
    } guard;
    for (int64_t i = 0; i < n; ++i) {
      produced = i + 1;
      co_yield i;
    }
    if (fail) co_return absl::DataLossError("no more");
    co_return absl::OkStatus();
  }

  void StartTimers() {
    context_->After(absl::Milliseconds(1), [this] { value_ = 100; });
    auto id = context_->After(absl::Milliseconds(1), [this] { value_ = -100; });
    context_->CancelTimer(id);
    every_ = context_->Every(absl::Milliseconds(1), [this] {
      if (++ticks == 3) context_->CancelTimer(every_);
    });
  }

  inline static std::atomic<int> produced{0};
  inline static std::atomic<int> streams_ended{0};
  inline static std::atomic<int> ticks{0};
  inline static std::atomic<int> gates_asked{0};

 private:
  int64_t value_ = 7;
  Promise<int64_t> gate_;
  troupe::ActorContext* context_ = nullptr;
  troupe::ActorContext::TimerId every_ = 0;

  Task<int64_t> Ask(Ref<Relay> other) { co_return co_await other.Call<&Relay::Value>(); }
};
TROUPE_REENTRANT(Relay, AskGateReentrant);
TROUPE_REENTRANT(Relay, AwaitReentrant);
TROUPE_ACTOR(Relay,
             TROUPE_METHODS(Value, Set, Gate, OpenGate, AskAndAdd, AskGate, AskGateReentrant, Throw, BlockOn, AwaitOn,
                            BlockOnBlocking, AwaitOnAwaiting, AwaitReentrant, BlockOnBoth, AfterGate, Count,
                            StartTimers),
             TROUPE_INIT());

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::Relay;

// Actors on one pool (or each on its own thread), called through the router or without it.
class Fixture {
 public:
  Fixture(Executor* executor, bool doors)
      : executor_(executor), router_(std::make_shared<testing::HostRouter>(host_, doors)) {}
  ~Fixture() {
    for (auto& cell : cells_) CHECK(cell->Stop("the test ends", MonotonicNow() + absl::Seconds(10)));
  }
  Ref<Relay> Spawn() {
    ActorSetting setting;
    setting.self = {{JobId("job"), "relay", static_cast<int32_t>(cells_.size())}, 1};
    contexts_.push_back(std::make_unique<ActorContext>(setting, router_, nullptr));
    cells_.push_back(std::make_shared<ActorCell>(*ActorRegistry::Global().Find("Relay").value(),
                                                 std::make_unique<Relay>(), *contexts_.back(),
                                                 ActorCellOptions{.executor = executor_}));
    CHECK(cells_.back()->Start().ok());
    host_.Add(cells_.back());
    return Ref<Relay>({setting.self, ""}, router_);
  }

 private:
  Executor* const executor_;
  ActorHost host_;
  const std::shared_ptr<testing::HostRouter> router_;
  std::vector<std::unique_ptr<ActorContext>> contexts_;
  std::vector<std::shared_ptr<ActorCell>> cells_;
};

// Every case runs with actors on one shared pool and on threads of their own, called in both ways.
void OnBoth(const std::function<void(Fixture&)>& test) {
  for (bool doors : {false, true}) {
    {
      ThreadPool pool({.threads = 2});
      Fixture fixture(&pool, doors);
      test(fixture);
    }
    Fixture fixture(nullptr, doors);
    test(fixture);
  }
}

TEST_CASE("Task: it awaits calls and other tasks, and its reference arguments stay", "[task]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    CHECK(a.Call<&Relay::AskAndAdd>(b, "35").Get().value() == 42);
    CHECK(a.Call<&Relay::AskAndAdd>(b, "no number").Get().status().code() == absl::StatusCode::kInternal);
    absl::Status thrown = a.Call<&Relay::Throw>(b).Get().status();
    CHECK(std::string(thrown.message()).find("broken inside") != std::string::npos);
    CHECK(a.Call<&Relay::Value>().Get().value() == 7);
  });
}

TEST_CASE("Task: other messages wait while it awaits, unless the method is reentrant", "[task]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    Future<void> reentrant = a.Call<&Relay::AskGateReentrant>(b);
    CHECK(a.Call<&Relay::Value>().Get().value() == 7);
    CHECK(b.Call<&Relay::OpenGate>(1).Get().ok());
    CHECK(reentrant.Get() == absl::DataLossError("as asked"));
    CHECK(a.Call<&Relay::Value>().Get().value() == 1);

    Ref<Relay> c = fixture.Spawn();
    Future<void> held = a.Call<&Relay::AskGate>(c);
    Future<int64_t> after = a.Call<&Relay::Value>();
    CHECK(after.Get(MonotonicNow() + absl::Milliseconds(30)).status().code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(c.Call<&Relay::OpenGate>(2).Get().ok());
    CHECK(held.Get().ok());
    CHECK(after.Get().value() == 2);
  });
}

TEST_CASE("Waits: a wait is over when its answer is there, also for an actor that has not gone on yet", "[task]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    for (int i = 0; i < 500; ++i) {
      // Either of the two is refused the circle; the other one's wait ends with the answer, after which a is free.
      (void)a.Call<&Relay::AwaitOnAwaiting>(b, a).Get();
      REQUIRE(a.Call<&Relay::BlockOn>(b).Get().ok());
      (void)a.Call<&Relay::BlockOnBlocking>(b, a).Get();
      REQUIRE(a.Call<&Relay::BlockOn>(b).Get().ok());
    }
  });
}

TEST_CASE("Waits: a call to oneself and a circle of waits are errors that name it, not hangs", "[task]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    for (const absl::Status& status : {
             a.Call<&Relay::BlockOn>(a).Get().status(),
             a.Call<&Relay::AwaitOn>(a).Get().status(),
             a.Call<&Relay::BlockOnBlocking>(b, a).Get().status(),
             a.Call<&Relay::AwaitOnAwaiting>(b, a).Get().status(),
         }) {
      CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
      CHECK(std::string(status.message()).find("job/relay/0#1 -> ") != std::string::npos);
    }
    CHECK(a.Call<&Relay::BlockOn>(b).Get().value() == 7);
    CHECK(a.Call<&Relay::AwaitOnAwaiting>(b, b).Get().status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(b.Call<&Relay::Value>().Get().value() == 7);
  });
}

TEST_CASE("Waits: an actor that takes messages meanwhile, and a call that was answered, hold up nobody", "[task]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn(), c = fixture.Spawn();
    Ref<Relay> b_gate = fixture.Spawn(), c_gate = fixture.Spawn();
    CHECK(a.Call<&Relay::AwaitReentrant>(b, a).Get().value() == 7);
    Relay::gates_asked = 0;
    Future<void> both = a.Call<&Relay::BlockOnBoth>(b, b_gate, c, c_gate);
    while (Relay::gates_asked < 2) PauseFor(absl::Milliseconds(1));
    CHECK(b_gate.Call<&Relay::OpenGate>(1).Get().ok());
    CHECK(b.Call<&Relay::Value>().Get().value() == 7);  // It has answered a, which waits for c alone now.
    Future<int64_t> held = b.Call<&Relay::BlockOn>(a);
    CHECK(held.Get(MonotonicNow() + absl::Milliseconds(30)).status().code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(c_gate.Call<&Relay::OpenGate>(1).Get().ok());
    CHECK(both.Get().ok());
    CHECK(held.Get().value() == 7);
  });
}

TEST_CASE("Stream: items come in order, then its end or its error", "[stream]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn();
    for (bool fail : {false, true}) {
      StreamReader<int64_t> items = a.Stream<&Relay::Count>(1000, fail);
      for (int64_t i = 0; i < 1000; ++i) REQUIRE(items.Next().Get().value() == i);
      absl::StatusOr<std::optional<int64_t>> end = items.Next().Get();
      if (fail) {
        CHECK(end.status() == absl::DataLossError("no more"));
      } else {
        CHECK(end.value() == std::nullopt);
      }
    }
    CHECK(a.Call<&Relay::Value>().Get().value() == 7);
  });
}

// Asks its actor to stop when a message was taken out of the mailbox and has not begun: then the clock is looked at.
class StoppingPool : public ThreadPool {
 public:
  StoppingPool() : ThreadPool({.threads = 1}) {}
  bool Passed(Monotonic deadline) const override {
    if (std::shared_ptr<ActorCell> cell = std::exchange(stopped, nullptr)) cell->BeginStop("now", v1::ExitCause());
    return ThreadPool::Passed(deadline);
  }
  mutable std::shared_ptr<ActorCell> stopped;
};

TEST_CASE("Stream: one that leaves the mailbox as its actor stops does not hold up its end", "[stream]") {
  StoppingPool pool;
  ActorHost host;
  auto router = std::make_shared<testing::HostRouter>(host);
  ActorSetting setting;
  setting.self = {{JobId("job"), "relay", 0}, 1};
  ActorContext context(setting, router, nullptr);
  auto cell = std::make_shared<ActorCell>(*ActorRegistry::Global().Find("Relay").value(), std::make_unique<Relay>(),
                                          context, ActorCellOptions{.executor = &pool});
  REQUIRE(cell->Start().ok());
  host.Add(cell);
  pool.stopped = cell;
  StreamReader<int64_t> items = Ref<Relay>({setting.self, ""}, router).Stream<&Relay::Count>(1'000'000, false);
  CHECK(cell->Stop("now", MonotonicNow() + absl::Seconds(5)));
  CHECK(CallErrorKindOf(items.Next().Get().status()) == v1::CallError::CALL_UNAVAILABLE);
}

TEST_CASE("Stream: the producer keeps to its window, and a reader that goes away ends it", "[stream]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn();
    Relay::produced = 0;
    int ended = Relay::streams_ended;
    {
      StreamReader<int64_t> items = a.StreamWithin<&Relay::Count>({.items = 8}, 1'000'000, false);
      REQUIRE(items.Next().Get().value() == 0);
      PauseFor(absl::Milliseconds(30));
      CHECK(Relay::produced <= 10);
      for (int64_t i = 1; i < 100; ++i) REQUIRE(items.Next().Get().value() == i);
      CHECK(Relay::produced <= 110);
      CHECK(Relay::streams_ended == ended);
    }
    CHECK(a.Call<&Relay::Value>().Get().value() == 7);  // The actor is free again.
    CHECK(Relay::streams_ended == ended + 1);
  });
}

TEST_CASE("Stream: a window of nothing, and one beyond all bounds, let all items through", "[stream]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn();
    for (size_t much : {size_t{0}, StreamWindow::kItemsMax, SIZE_MAX / 2 + 2, SIZE_MAX}) {
      StreamReader<int64_t> items = a.StreamWithin<&Relay::Count>({.items = much, .bytes = much}, 100, false);
      for (int64_t i = 0; i < 100; ++i) {
        auto next = items.Next().Get(MonotonicNow() + absl::Seconds(5));
        INFO(much << " at " << i << ": " << next.status());
        REQUIRE(next.ok());
        REQUIRE(*next == i);
      }
    }
  });
}

TEST_CASE("Send: one-way messages arrive in order with calls, and a full mailbox is told", "[actor]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    for (int64_t i = 0; i < 100; ++i) REQUIRE(a.Send<&Relay::Set>(i).ok());
    CHECK(a.Call<&Relay::Value>().Get().value() == 99);
    Future<void> held = a.Call<&Relay::AskGate>(b);
    absl::Status full;
    for (int64_t i = 0; i < 5000 && full.ok(); ++i) full = a.Send<&Relay::Set>(i);
    CHECK(CallErrorKindOf(full) == v1::CallError::CALL_OVERLOADED);
    CHECK(b.Call<&Relay::OpenGate>(2).Get().ok());
    CHECK(held.Get().ok());
  });
}

TEST_CASE("Cancel: a call that waits is not run, and its future ends", "[actor]") {
  OnBoth([](Fixture& fixture) {
    Ref<Relay> a = fixture.Spawn(), b = fixture.Spawn();
    Future<void> held = a.Call<&Relay::AskGate>(b);
    Future<void> set = a.Call<&Relay::Set>(55);
    set.Cancel();
    CHECK(CallErrorKindOf(set.Get()) == v1::CallError::CALL_CANCELLED);
    CHECK(b.Call<&Relay::OpenGate>(2).Get().ok());
    CHECK(held.Get().ok());
    CHECK(a.Call<&Relay::Value>().Get().value() == 2);
  });
}

TEST_CASE("Timers: they run in the actor's turns, once or again and again, until they are cancelled", "[actor]") {
  OnBoth([](Fixture& fixture) {
    Relay::ticks = 0;
    Ref<Relay> a = fixture.Spawn();
    REQUIRE(a.Call<&Relay::StartTimers>().Get().ok());
    for (int i = 0; i < 1000 && (Relay::ticks < 3 || a.Call<&Relay::Value>().Get().value() != 100); ++i) {
      PauseFor(absl::Milliseconds(1));
    }
    PauseFor(absl::Milliseconds(10));
    CHECK(Relay::ticks == 3);
    CHECK(a.Call<&Relay::Value>().Get().value() == 100);
  });
}

TEST_CASE("ThreadPool: handlers that block take no thread from others", "[executor]") {
  ThreadPool pool({.threads = 1});
  Fixture fixture(&pool, GENERATE(false, true));
  std::vector<Ref<Relay>> actors;
  for (int i = 0; i < 6; ++i) actors.push_back(fixture.Spawn());
  // Each blocks on the next; the last answers.
  std::vector<Future<int64_t>> futures;
  for (int i = 0; i < 5; ++i) futures.push_back(actors[i].Call<&Relay::BlockOn>(actors[i + 1]));
  REQUIRE(WaitAll(futures, MonotonicNow() + absl::Seconds(10)).ok());
  for (Future<int64_t>& future : futures) CHECK(future.Get().value() == 7);
}

TEST_CASE("Wait: WaitAny, WaitN and WaitAll tell which are ready, and use up none", "[future]") {
  std::vector<Promise<int>> promises(3);
  std::vector<Future<int>> futures;
  for (Promise<int>& promise : promises) futures.push_back(promise.TakeFuture());
  Monotonic soon = MonotonicNow() + absl::Milliseconds(5);
  CHECK(WaitAny(futures, soon).status().code() == absl::StatusCode::kDeadlineExceeded);
  promises[1].Set(1);
  CHECK(WaitAny(futures).value() == 1);
  CHECK(WaitN(futures, 2, soon).value() == std::vector<size_t>{1});
  absl::Status missing = WaitAll(futures, soon);
  CHECK(missing.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(missing.message()).find("2 of 3") != std::string::npos);
  std::thread setter([&promises] {
    promises[0].Set(0);
    promises[2].Set(absl::UnknownError("x"));
  });
  CHECK(WaitAll(futures).ok());
  setter.join();
  CHECK(WaitN(futures, 9).value() == std::vector<size_t>{0, 1, 2});
  CHECK(futures[1].Get().value() == 1);
  CHECK(WaitAny(std::vector<Future<int>>()).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace troupe
