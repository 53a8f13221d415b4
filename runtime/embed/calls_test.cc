// SPDX-License-Identifier: Apache-2.0
// Calls between actors in one program: their order, deadlines and ends.
#include <atomic>
#include <catch2/catch.hpp>

#include "runtime/actor/call_error.h"
#include "runtime/embed/runtime.h"
#include "runtime/embed/testing/gate.h"
#include "runtime/env/clock.h"
#include "runtime/env/testing/eventually.h"

namespace troupe_test {

// A class that the called actor is not of.
class Other : public troupe::Actor {
 public:
  std::string Name() const { return "other"; }
};
TROUPE_ACTOR(Other, TROUPE_METHODS(Name), TROUPE_INIT());

// What goes to its mailbox as it is, and what is encoded on the way.
struct Packed {
  int64_t shown = 0;
  int64_t hidden = 0;  // Does not travel.
};
TROUPE_STRUCT(Packed, shown);

class Ledger : public troupe::Actor {
 public:
  void Write(int64_t n) { written_.push_back(n); }
  int64_t WritePacked(const Packed& packed) {
    written_.push_back(packed.shown + packed.hidden);
    return packed.hidden;
  }
  troupe::Task<int64_t> WriteInTask(int64_t n) {
    written_.push_back(n);
    co_return n;
  }
  std::vector<int64_t> Written() const { return written_; }
  int64_t Address(std::vector<int64_t> values) { return reinterpret_cast<int64_t>(values.data()); }
  troupe::Future<int64_t> Never() { return never_.TakeFuture(); }
  troupe::Task<int64_t> AwaitNever(troupe::Ref<Ledger> other) { co_return co_await other.Call<&Ledger::Never>(); }
  void Wait() { gate.Pass(); }

  inline static Gate gate;

 private:
  std::vector<int64_t> written_;
  troupe::Promise<int64_t> never_;
};
TROUPE_ACTOR(Ledger, TROUPE_METHODS(Write, WritePacked, WriteInTask, Written, Address, Never, AwaitNever, Wait),
             TROUPE_INIT());

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::Ledger;
using troupe_test::Other;
using troupe_test::Packed;

TEST_CASE("Calls: moved and encoded ones of a sender keep their order; what a struct does not name stays behind",
          "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Ledger> ledger = runtime.Spawn<Ledger>({}).value();
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 400; ++i) {
    expected.push_back(i);
    switch (i % 4) {
      case 0:
        REQUIRE(ledger.Send<&Ledger::Write>(i).ok());
        break;
      case 1:
        static_cast<void>(ledger.Call<&Ledger::Write>(i));
        break;
      case 2:
        static_cast<void>(ledger.Call<&Ledger::WriteInTask>(i));
        break;
      default:
        REQUIRE(ledger.Send<&Ledger::WritePacked>(Packed{i, 1'000'000}).ok());
    }
  }
  CHECK(ledger.Call<&Ledger::Written>().Get().value() == expected);
  CHECK(ledger.Call<&Ledger::WritePacked>(Packed{1, 2}).Get().value() == 0);
  std::vector<int64_t> values(1000);
  auto address = reinterpret_cast<int64_t>(values.data());
  CHECK(ledger.Call<&Ledger::Address>(std::move(values)).Get().value() == address);
  CHECK(runtime.Find<Other>(ledger.life().path.role)->Call<&Other::Name>().Get().status().code() ==
        absl::StatusCode::kUnimplemented);
}

TEST_CASE("Calls: one within the process ends by its deadline, however its future is used", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Ledger> ledger = runtime.Spawn<Ledger>({}).value(), other = runtime.Spawn<Ledger>({}).value();
  Ledger::gate.Close();
  Future<void> busy = ledger.Call<&Ledger::Wait>();
  REQUIRE(Ledger::gate.AwaitWaiting());
  Ref<Ledger> hasty = ledger.WithTimeout(absl::Milliseconds(20));
  std::atomic<int> told{0};
  hasty.Call<&Ledger::Write>(1).Then([&told](const absl::Status& status) {
    if (CallErrorKindOf(status) == v1::CallError::CALL_DEADLINE) ++told;
  });
  std::vector<Future<void>> two;
  two.push_back(hasty.Call<&Ledger::Write>(2));
  two.push_back(hasty.WithTimeout(absl::Seconds(60)).Call<&Ledger::Write>(3));
  CHECK(WaitAny(two).value() == 0);
  CHECK(CallErrorKindOf(two[0].Get()) == v1::CallError::CALL_DEADLINE);
  CHECK(Eventually([&] { return told == 1; }));
  Future<void> polled = hasty.Call<&Ledger::Write>(4);
  CHECK(Eventually([&] { return polled.Ready(); }));
  CHECK(CallErrorKindOf(polled.Get()) == v1::CallError::CALL_DEADLINE);
  CHECK_FALSE(busy.Ready());
  Future<void> waits = ledger.Call<&Ledger::Write>(5);
  CHECK(waits.Get(MonotonicNow() + absl::Milliseconds(5)).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(waits.valid());
  Ledger::gate.Open();
  CHECK(waits.Get().ok());
  CHECK(ledger.Call<&Ledger::Written>().Get().value() == std::vector<int64_t>{3, 5});
  CHECK(CallErrorKindOf(hasty.Call<&Ledger::AwaitNever>(other).Get().status()) == v1::CallError::CALL_DEADLINE);
}

TEST_CASE("Calls: those that wait when their actor is stopped are answered at once, later ones with its end",
          "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Ledger> ledger = runtime.Spawn<Ledger>({}).value();
  Ledger::gate.Close();
  Future<void> busy = ledger.Call<&Ledger::Wait>();
  REQUIRE(Ledger::gate.AwaitWaiting());
  Future<void> waits = ledger.Call<&Ledger::Write>(1);
  CHECK(runtime.Stop(ledger, "enough", absl::ZeroDuration()).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(CallErrorKindOf(waits.Get()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK_FALSE(busy.Ready());
  CHECK(CallErrorKindOf(ledger.Call<&Ledger::Write>(2).Get()) == v1::CallError::CALL_UNAVAILABLE);
  Ledger::gate.Open();
  CHECK(busy.Get().ok());
  CHECK(runtime.Stop(ledger, "enough").ok());
  CHECK(CallErrorKindOf(ledger.Call<&Ledger::Write>(3).Get()) == v1::CallError::CALL_DIED);
  CHECK(CallErrorKindOf(ledger.Send<&Ledger::Write>(4)) == v1::CallError::CALL_DIED);
}

}  // namespace
}  // namespace troupe
