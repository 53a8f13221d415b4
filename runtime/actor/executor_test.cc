// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/executor.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "runtime/actor/future.h"
#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"

namespace troupe {
namespace {

Monotonic Soon(int64_t ms) { return MonotonicNow() + absl::Milliseconds(ms); }

TEST_CASE("ThreadPool: one thread runs tasks in their order, always the same one", "[executor]") {
  ThreadPool pool({.threads = 1, .threads_max = 1});
  std::vector<int> order;
  std::set<std::thread::id> threads;
  Promise<void> done;
  Future<void> future = done.TakeFuture();
  for (int i = 0; i < 100; ++i) {
    pool.Post([&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
      if (i == 99) done.Set(absl::OkStatus());
    });
  }
  REQUIRE(future.Get(Soon(10'000)).ok());
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  CHECK(threads.size() == 1);
}

TEST_CASE("ThreadPool: a task that keeps its thread holds up no other while there may be more threads", "[executor]") {
  for (int round = 0; round < 100; ++round) {
    ThreadPool pool({.threads = 2});
    Promise<void> warm;
    Future<void> warmed = warm.TakeFuture();
    pool.Post([&] { warm.Set(absl::OkStatus()); });
    REQUIRE(warmed.Get(Soon(10'000)).ok());
    PauseFor(absl::Milliseconds(2));  // One thread, and it idles.
    std::atomic<bool> second{false};
    Promise<void> ended;
    Future<void> future = ended.TakeFuture();
    pool.Post([&] {
      const Monotonic end = Soon(5'000);
      while (!second && MonotonicNow() < end) PauseFor(absl::Microseconds(100));
      ended.Set(second ? absl::OkStatus() : absl::DeadlineExceededError("the second task did not run"));
    });
    pool.Post([&] { second = true; });  // Perhaps before the thread that idles has taken the first one.
    REQUIRE(future.Get(Soon(10'000)).ok());
  }
}

TEST_CASE("ThreadPool: timers run in the order of their times, and not after their cancel", "[executor]") {
  ThreadPool pool({.threads = 1});
  std::vector<int> order;
  Promise<void> done;
  Future<void> future = done.TakeFuture();
  pool.PostAt(Soon(30), [&] { done.Set(absl::OkStatus()); });
  pool.PostAt(Soon(20), [&] { order.push_back(2); });
  uint64_t cancelled = pool.PostAt(Soon(15), [&] { order.push_back(-1); });
  pool.PostAt(Soon(10), [&] { order.push_back(1); });
  CHECK(pool.CancelTimer(cancelled));
  CHECK_FALSE(pool.CancelTimer(cancelled));
  REQUIRE(future.Get(Soon(10'000)).ok());
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("ThreadPool: tasks and timers go on while others wait, and the threads for that go again", "[executor]") {
  ThreadPool pool({.threads = 1});
  std::vector<Promise<void>> gates(5);
  std::vector<Promise<void>> done(5);
  std::vector<Future<void>> gate_futures;
  for (auto& gate : gates) gate_futures.push_back(gate.TakeFuture());
  std::vector<Future<void>> ended;
  for (size_t i = 0; i < 5; ++i) {
    ended.push_back(done[i].TakeFuture());
    pool.Post([&, i] {
      bool set = pool.Wait(*gate_futures[i].base(), Soon(10'000));
      done[i].Set(set ? absl::OkStatus() : absl::DeadlineExceededError("not set"));
    });
  }
  while (pool.threads() < 5) PauseFor(absl::Milliseconds(1));
  // Every thread waits: a timer still runs.
  pool.PostAt(Soon(5), [&] {
    for (auto& gate : gates) gate.Set(absl::OkStatus());
  });
  for (Future<void>& future : ended) REQUIRE(future.Get(Soon(5'000)).ok());
  for (int i = 0; i < 5'000 && pool.threads() > 1; ++i) PauseFor(absl::Milliseconds(1));
  CHECK(pool.threads() == 1);
}

TEST_CASE("ThreadPool: a task that runs at its end may still cancel a timer", "[executor]") {
  auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = 1});
  std::atomic<bool> runs{false}, cancelled{true};
  pool->Post([&pool = *pool, &runs, &cancelled] {
    uint64_t timer = pool.PostAt(Soon(60'000), [] {});
    runs = true;
    while (pool.PostAt(Soon(60'000), [] {}) != 0) PauseFor(absl::Milliseconds(1));  // Until the end has begun.
    cancelled = pool.CancelTimer(timer);
  });
  while (!runs) std::this_thread::yield();
  pool = nullptr;
  CHECK_FALSE(cancelled);
}

// Messages that an idle thread takes: each is a task that it posts. Alone, it is nobody's to wake.
class Inbox : public IdleWork {
 public:
  bool Wait(const std::function<bool()>& done, Monotonic deadline) override {
    while (true) {
      std::function<void()> message;
      {
        MutexLock lock(mutex_);
        taker_ = std::this_thread::get_id();
        changed_.WaitUntil(lock, deadline, [this] { return woken_ || message_; });
        message.swap(message_);
        woken_ = false;
      }
      if (message) message();
      if (done() || MonotonicNow() >= deadline) return true;
    }
  }
  void Wake() override {
    MutexLock lock(mutex_);
    ++wakes_;
    woken_ = true;
    changed_.NotifyAll();
  }
  void Put(std::function<void()> message) {
    MutexLock lock(mutex_);
    message_ = std::move(message);
    changed_.NotifyAll();
  }
  int wakes() {
    MutexLock lock(mutex_);
    return wakes_;
  }
  std::thread::id taker() {
    MutexLock lock(mutex_);
    return taker_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::function<void()> message_;
  std::thread::id taker_;
  int wakes_ = 0;
  bool woken_ = false;
};

TEST_CASE("ThreadPool: an idle thread takes messages and runs what they post, and others can still wake it",
          "[executor]") {
  auto inbox = std::make_shared<Inbox>();
  ThreadPool pool({.threads = 1, .threads_max = 1, .idle = inbox});
  auto run_on = [&](bool by_message) {
    Promise<void> done;
    Future<void> future = done.TakeFuture();
    std::thread::id ran;
    auto task = [&] {
      ran = std::this_thread::get_id();
      done.Set(absl::OkStatus());
    };
    if (by_message) {
      inbox->Put([&] { pool.Post(task); });
    } else {
      pool.Post(task);
    }
    REQUIRE(future.Get(Soon(10'000)).ok());
    return ran;
  };
  (void)run_on(false);
  while (inbox->taker() == std::thread::id()) std::this_thread::yield();  // It idles.
  int wakes = inbox->wakes();
  for (int i = 0; i < 100; ++i) REQUIRE(run_on(true) == inbox->taker());
  CHECK(inbox->wakes() == wakes);
  for (int i = 0; i < 100; ++i) REQUIRE(run_on(false) == inbox->taker());
  std::atomic<bool> timer{false};
  pool.PostAt(Soon(5), [&] { timer = true; });
  for (int i = 0; i < 5'000 && !timer; ++i) PauseFor(absl::Milliseconds(1));
  CHECK(timer);
}

TEST_CASE("ThreadPool: its end drops what waits, and lets what runs end", "[executor]") {
  std::atomic<int> ran{0};
  {
    ThreadPool pool({.threads = 1});
    pool.Post([&] {
      ++ran;
      PauseFor(absl::Milliseconds(30));
      ++ran;
    });
    while (ran == 0) std::this_thread::yield();
    pool.Post([&] { ran = 100; });
    pool.PostAt(Soon(1), [&] { ran = 100; });
  }
  CHECK(ran == 2);
}

}  // namespace
}  // namespace troupe
