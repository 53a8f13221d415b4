// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/mailbox.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/actor/future.h"
#include "runtime/env/clock.h"

namespace troupe {
namespace {

TEST_CASE("Mailbox: messages leave in the order in which they came", "[mailbox]") {
  Mailbox<int> mailbox({});
  for (int i = 0; i < 5; ++i) REQUIRE(mailbox.Push(int{i}, 1).ok());
  for (int i = 0; i < 5; ++i) CHECK(mailbox.Pop().value() == i);
  CHECK_FALSE(mailbox.Pop().has_value());
}

TEST_CASE("Mailbox: a full mailbox answers RESOURCE_EXHAUSTED and keeps the message with its sender", "[mailbox]") {
  Mailbox<std::string> by_count({.messages_max = 2, .bytes_max = 1000});
  REQUIRE(by_count.Push("a", 1).ok());
  REQUIRE(by_count.Push("b", 1).ok());
  std::string kept = "kept";
  CHECK(by_count.Push(std::move(kept), 1).code() == absl::StatusCode::kResourceExhausted);
  CHECK(kept == "kept");
  (void)by_count.Pop();
  CHECK(by_count.Push(std::move(kept), 1).ok());

  Mailbox<int> by_bytes({.messages_max = 100, .bytes_max = 10});
  REQUIRE(by_bytes.Push(1, 8).ok());
  CHECK(by_bytes.Push(2, 3).code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(by_bytes.Push(2, 2).ok());
  (void)by_bytes.Pop();
  CHECK(by_bytes.Push(3, 8).ok());
}

TEST_CASE("Mailbox: Close hands back what waited and refuses the rest", "[mailbox]") {
  Mailbox<int> mailbox({});
  REQUIRE(mailbox.Push(1, 1).ok());
  REQUIRE(mailbox.Push(2, 1).ok());
  CHECK(mailbox.Close() == std::vector<int>{1, 2});
  CHECK(mailbox.Push(3, 1).code() == absl::StatusCode::kUnavailable);
  CHECK_FALSE(mailbox.Pop().has_value());
  CHECK(mailbox.Close().empty());
}

TEST_CASE("Mailbox: Remove takes the first that matches, and its bytes", "[mailbox]") {
  Mailbox<int> mailbox({.messages_max = 10, .bytes_max = 10});
  for (int i = 0; i < 3; ++i) REQUIRE(mailbox.Push(int{i}, 3).ok());
  CHECK(mailbox.Remove([](int i) { return i > 0; }) == 1);
  CHECK_FALSE(mailbox.Remove([](int i) { return i > 5; }).has_value());
  CHECK(mailbox.bytes() == 6);
  CHECK(mailbox.Pop() == 0);
  CHECK(mailbox.Pop() == 2);
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
