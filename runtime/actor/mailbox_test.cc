// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/mailbox.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/actor/future.h"
#include "runtime/env/clock.h"

namespace troupe {
namespace {

// Counts itself; what it does is its number.
class Numbered final : public internal::Message {
 public:
  explicit Numbered(int number) : number(number) { ++alive; }
  void Run(Actor&, internal::Strand&) override { Drop(); }
  void Refuse(const ActorLife&) override { Drop(); }
  void Drop() override {
    --alive;
    delete this;
  }
  CallKey key() const override { return {nullptr, static_cast<uint64_t>(number)}; }

  const int number;
  inline static std::atomic<int> alive{0};
};

using internal::Mailbox;
using internal::MessageList;

// -1: nothing.
int NumberOf(internal::Message* message) {
  if (message == nullptr) return -1;
  int number = static_cast<Numbered*>(message)->number;
  message->Drop();
  return number;
}

absl::Status Push(Mailbox& mailbox, int number, size_t bytes = 1, bool* wakes = nullptr) {
  bool woken = false;
  auto message = std::make_unique<Numbered>(number);
  absl::Status pushed = mailbox.Push(message.get(), bytes, wakes == nullptr ? woken : *wakes);
  if (pushed.ok()) {
    (void)message.release();
  } else {
    message.release()->Drop();
  }
  return pushed;
}

void Empty(MessageList list) {
  while (internal::Message* message = list.Take()) message->Drop();
}

TEST_CASE("Mailbox: messages leave in the order in which they came, and tasks before them", "[mailbox]") {
  Mailbox mailbox;
  for (int i = 0; i < 5; ++i) REQUIRE(Push(mailbox, i).ok());
  CHECK(NumberOf(mailbox.Pop(true)) == 0);
  bool wakes = false;
  CHECK(mailbox.PushTask(new Numbered(10), wakes));
  CHECK(mailbox.PushTask(new Numbered(11), wakes));
  REQUIRE(Push(mailbox, 5).ok());
  CHECK(NumberOf(mailbox.Pop(true)) == 10);
  CHECK(NumberOf(mailbox.Pop(false)) == 11);
  CHECK(NumberOf(mailbox.Pop(false)) == -1);
  for (int i = 1; i < 6; ++i) CHECK(NumberOf(mailbox.Pop(true)) == i);
  CHECK(NumberOf(mailbox.Pop(true)) == -1);
}

TEST_CASE("Mailbox: a full one answers RESOURCE_EXHAUSTED, by number and by bytes", "[mailbox]") {
  Mailbox by_count;
  by_count.SetLimits({.messages_max = 2, .bytes_max = 1000});
  REQUIRE(Push(by_count, 1).ok());
  REQUIRE(Push(by_count, 2).ok());
  CHECK(Push(by_count, 3).code() == absl::StatusCode::kResourceExhausted);
  CHECK(NumberOf(by_count.Pop(true)) == 1);
  CHECK(Push(by_count, 3).ok());
  Empty(by_count.End());

  Mailbox by_bytes;
  by_bytes.SetLimits({.messages_max = 100, .bytes_max = 10});
  REQUIRE(Push(by_bytes, 1, 8).ok());
  CHECK(Push(by_bytes, 2, 3).code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(Push(by_bytes, 2, 2).ok());
  CHECK(NumberOf(by_bytes.Pop(true)) == 1);
  CHECK(Push(by_bytes, 3, 8).ok());
  Empty(by_bytes.End());
  CHECK(Numbered::alive == 0);
}

TEST_CASE("Mailbox: one message that is larger than the mailbox is let in alone", "[mailbox]") {
  Mailbox mailbox;
  mailbox.SetLimits({.messages_max = 100, .bytes_max = 10});
  REQUIRE(Push(mailbox, 1, 50).ok());
  CHECK_FALSE(Push(mailbox, 2, 1).ok());
  CHECK(NumberOf(mailbox.Pop(true)) == 1);
  CHECK(Push(mailbox, 2, 1).ok());
  CHECK_FALSE(Push(mailbox, 3, 50).ok());
  Empty(mailbox.End());
}

TEST_CASE("Mailbox: a large one gives back its places by parts, all of them when it is empty", "[mailbox]") {
  Mailbox mailbox;
  mailbox.SetLimits({.messages_max = 640, .bytes_max = 1 << 20});
  for (int round = 0; round < 3; ++round) {
    int accepted = 0;
    while (Push(mailbox, accepted).ok()) ++accepted;
    CHECK(accepted == 640);
    for (int i = 0; i < 320; ++i) REQUIRE(NumberOf(mailbox.Pop(true)) == i);
    CHECK(mailbox.size() >= 320);
    CHECK(mailbox.size() < 330);
    for (int i = 320; i < 640; ++i) REQUIRE(NumberOf(mailbox.Pop(true)) == i);
    CHECK(mailbox.size() == 0);
  }
}

TEST_CASE("Mailbox: Close hands back what waited and refuses messages; tasks come until the end", "[mailbox]") {
  Mailbox mailbox;
  REQUIRE(Push(mailbox, 1).ok());
  REQUIRE(Push(mailbox, 2).ok());
  MessageList left = mailbox.Close();
  CHECK(NumberOf(left.Take()) == 1);
  CHECK(NumberOf(left.Take()) == 2);
  CHECK(Push(mailbox, 3).code() == absl::StatusCode::kUnavailable);
  CHECK(NumberOf(mailbox.Pop(true)) == -1);
  CHECK(mailbox.Close().empty());
  bool wakes = false;
  CHECK(mailbox.PushTask(new Numbered(4), wakes));
  CHECK(NumberOf(mailbox.Pop(true)) == 4);
  CHECK(mailbox.PushTask(new Numbered(5), wakes));
  MessageList last = mailbox.End();
  CHECK(NumberOf(last.Take()) == 5);
  auto refused = std::make_unique<Numbered>(6);
  CHECK_FALSE(mailbox.PushTask(refused.get(), wakes));
  refused.release()->Drop();
  CHECK_FALSE(wakes);
  CHECK(Numbered::alive == 0);
}

TEST_CASE("Mailbox: Remove takes the message with that key, and its place", "[mailbox]") {
  Mailbox mailbox;
  mailbox.SetLimits({.messages_max = 3, .bytes_max = 10});
  for (int i = 0; i < 3; ++i) REQUIRE(Push(mailbox, i, 3).ok());
  CHECK(NumberOf(mailbox.Remove({nullptr, 2})) == 2);
  CHECK(mailbox.Remove({nullptr, 2}) == nullptr);
  CHECK(mailbox.Remove({&mailbox, 1}) == nullptr);
  CHECK(Push(mailbox, 5, 3).ok());
  for (int i : {0, 1, 5}) CHECK(NumberOf(mailbox.Pop(true)) == i);
}

TEST_CASE("Mailbox: who ends its rest is told, and nobody else", "[mailbox]") {
  Mailbox mailbox;
  bool wakes = false;
  REQUIRE(Push(mailbox, 1, 1, &wakes).ok());
  CHECK_FALSE(wakes);  // It was not at rest yet.
  CHECK_FALSE(mailbox.Rest(true));
  CHECK(NumberOf(mailbox.Pop(true)) == 1);
  REQUIRE(mailbox.Rest(true));
  REQUIRE(Push(mailbox, 2, 1, &wakes).ok());
  CHECK(wakes);
  REQUIRE(Push(mailbox, 3, 1, &wakes).ok());
  CHECK_FALSE(wakes);
  CHECK(mailbox.Pop(false) == nullptr);
  REQUIRE(mailbox.Rest(false));  // Messages may not be begun now.
  CHECK(mailbox.PushTask(new Numbered(4), wakes));
  CHECK(wakes);
  CHECK(NumberOf(mailbox.Pop(true)) == 4);
  CHECK_FALSE(mailbox.Rest(true));
  Empty(mailbox.Close());
  REQUIRE(mailbox.Rest(true));
  CHECK_FALSE(Push(mailbox, 5, 1, &wakes).ok());
  CHECK(mailbox.PushTask(new Numbered(6), wakes));
  CHECK(wakes);
  Empty(mailbox.End());
}

// What an executor does, with one thread that looks whether a turn was asked for.
TEST_CASE("Mailbox: of many senders nothing is lost, doubled or out of order, and no wake is missed", "[mailbox]") {
  constexpr int kSenders = 3, kEach = 20'000;
  Mailbox mailbox;
  mailbox.SetLimits({.messages_max = 256, .bytes_max = 1 << 20});
  REQUIRE(mailbox.Rest(true));
  std::atomic<int> turns{0};  // Asked for and not ended: 0 or 1.
  std::atomic<bool> twice{false};
  auto wake = [&] {
    if (turns.fetch_add(1) != 0) twice = true;
  };
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kEach;) {
        bool wakes = false;
        auto message = std::make_unique<Numbered>(sender * kEach + i);
        bool task = i % 7 == 0;
        bool pushed = task ? mailbox.PushTask(message.get(), wakes) : mailbox.Push(message.get(), 1, wakes).ok();
        if (pushed) {
          (void)message.release();
          ++i;
        } else {
          message.release()->Drop();
          std::this_thread::yield();
        }
        if (wakes) wake();
      }
    });
  }
  std::vector<std::vector<int>> messages(kSenders), tasks(kSenders);
  int count = 0;
  bool in_time = true;
  for (Monotonic end = MonotonicNow() + absl::Seconds(60); count < kSenders * kEach && in_time;) {
    in_time = MonotonicNow() < end;
    if (turns.load() == 0) {
      std::this_thread::yield();
      continue;
    }
    while (true) {
      int number = NumberOf(mailbox.Pop(true));
      if (number >= 0) {
        ++count;
        auto& seen = number % kEach % 7 == 0 ? tasks : messages;
        seen[static_cast<size_t>(number / kEach)].push_back(number % kEach);
        continue;
      }
      --turns;  // Before the rest: who ends it asks anew.
      if (mailbox.Rest(true)) break;
      ++turns;
    }
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(count == kSenders * kEach);
  CHECK_FALSE(twice);
  CHECK(mailbox.size() == 0);
  for (int sender = 0; sender < kSenders; ++sender) {
    CHECK(std::is_sorted(messages[sender].begin(), messages[sender].end()));
    CHECK(std::is_sorted(tasks[sender].begin(), tasks[sender].end()));
    CHECK(messages[sender].size() + tasks[sender].size() == kEach);
  }
  Empty(mailbox.End());
  CHECK(Numbered::alive == 0);
}

TEST_CASE("Mailbox: one that closes while others send gives each message to somebody", "[mailbox]") {
  for (int round = 0; round < 2000; ++round) {
    Mailbox mailbox;
    std::atomic<int> accepted{0}, taken{0};
    std::thread sender([&] {
      for (int i = 0; Push(mailbox, i).ok(); ++i) ++accepted;
    });
    std::thread turn([&] {
      for (int i = 0; i < 50; ++i) taken += NumberOf(mailbox.Pop(true)) >= 0 ? 1 : 0;
    });
    MessageList left = mailbox.Close();
    while (NumberOf(left.Take()) >= 0) ++taken;
    sender.join();
    turn.join();
    CHECK(NumberOf(mailbox.Pop(true)) == -1);
    REQUIRE(accepted == taken);
    CHECK(mailbox.End().empty());
  }
  CHECK(Numbered::alive == 0);
}

TEST_CASE("Future: Get waits for Set of another thread, and a deadline ends the waiting but not the future",
          "[future]") {
  Promise<int> promise;
  Future<int> future = promise.TakeFuture();
  CHECK_FALSE(future.Ready());
  CHECK(future.Get(MonotonicNow() + absl::Milliseconds(10)).status().code() == absl::StatusCode::kDeadlineExceeded);
  std::thread setter([promise] {
    PauseFor(absl::Milliseconds(10));
    promise.Set(7);
    promise.Set(8);
  });
  CHECK(future.Get().value() == 7);
  setter.join();
}

TEST_CASE("Future: Then runs once, before or after the result came", "[future]") {
  std::atomic<int> seen{0};
  Promise<int> before;
  before.TakeFuture().Then([&seen](absl::StatusOr<int> value) { seen += *value; });
  before.Set(1);
  before.Set(1);
  Future<int>::Of(10).Then([&seen](absl::StatusOr<int> value) { seen += *value; });
  CHECK(seen == 11);
}

TEST_CASE("Future: a promise that is dropped ends its future with UNAVAILABLE", "[future]") {
  Future<void> future;
  {
    Promise<void> promise;
    future = promise.TakeFuture();
    Promise<void> copy = promise;
  }
  CHECK(future.Get().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("Future: many results cross between threads", "[future]") {
  for (int round = 0; round < 300; ++round) {
    Promise<int> promise;
    Future<int> future = promise.TakeFuture();
    std::thread setter([promise, round] { promise.Set(round); });
    if (round % 2 == 0) {
      CHECK(future.Get().value() == round);
    } else {
      Promise<int> relay;
      Future<int> relayed = relay.TakeFuture();
      future.Then([relay](absl::StatusOr<int> value) { relay.Set(std::move(value)); });
      CHECK(relayed.Get().value() == round);
    }
    setter.join();
  }
}

}  // namespace
}  // namespace troupe
