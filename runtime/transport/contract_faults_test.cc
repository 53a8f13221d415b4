// SPDX-License-Identifier: Apache-2.0
// The contract of a call (DESIGN.md) while connections break, processes go and actors die, over every transport.
#include "runtime/env/testing/eventually.h"
#include "runtime/transport/testing/contract_world.h"

namespace troupe {
namespace {

TEST_CASE("Contract: calls that may be repeated have one effect each, in order, whatever the connection loses",
          "[contract]") {
  OverEachConnection([](World& world) {
    for (int round = 0; round < 10; ++round) {
      std::vector<Future<void>> calls;
      for (int64_t n = 0; n < 20; ++n) {
        calls.push_back(world.ref().Call<&Subject::NextRepeated>(20 * round + n));
        if (n == 5) {
          PauseFor(absl::Milliseconds(round % 3));
          world.callee->CutConnections();
        }
      }
      for (Future<void>& call : calls) {
        absl::Status status = call.Get();
        INFO("round " << round << ": " << status);
        REQUIRE(status.ok());
      }
    }
    CHECK(world.ref().Call<&Subject::Count>().Get().value() == 200);
  });
}

TEST_CASE("Contract: a repeated call never reaches another life, and is given up with its process", "[contract]") {
  OverEachConnection([](World& world) {
    Future<int64_t> open = world.ref().Call<&Subject::GateRepeated>();
    PauseFor(absl::Milliseconds(20));
    world.callee->CutConnections();
    CHECK(open.Get(MonotonicNow() + absl::Milliseconds(100)).status().code() == absl::StatusCode::kDeadlineExceeded);
    v1::ExitCause cause;
    cause.set_text("gone");
    world.caller->transport->MarkDead(world.address.life, cause);
    CHECK(CallErrorKindOf(open.Get().status()) == v1::CallError::CALL_DIED);
  });
}

TEST_CASE("Contract: calls that may be repeated and were given up leave nothing that refuses later ones",
          "[contract]") {
  OverEachConnection([](World& world) {
    Ref<Subject> ref = world.ref();
    for (int round = 0; round < 120; ++round) {  // More than a receiver remembers of one caller.
      std::vector<Future<int64_t>> calls;
      for (int i = 0; i < 10; ++i) calls.push_back(ref.Call<&Subject::GateRepeated>());
      for (Future<int64_t>& call : calls) call.Cancel();
      REQUIRE(ref.Call<&Subject::Count>().Get().ok());  // They have come, and what follows them.
    }
    CHECK(ref.Call<&Subject::NextRepeated>(0).Get() == absl::OkStatus());
  });
}

TEST_CASE("Contract: what is in flight goes on over a connection that breaks, each once and in order", "[contract]") {
  OverEachConnection([](World& world) {
    Ref<Subject> ref = world.ref();
    Future<int64_t> open = ref.Call<&Subject::Gate>();
    StreamReader<int64_t> numbers = ref.Stream<&Subject::Numbers>(2000, "");
    int64_t next = 0;
    const TransportCounters& counters = world.caller->transport->counters();
    REQUIRE(ref.Call<&Subject::Count>().Get().ok());  // There is a connection to break.
    for (int round = 0; round < 10; ++round) {
      const uint64_t before = counters.resumed;
      std::vector<Future<void>> calls;
      for (int64_t n = 0; n < 40; ++n, ++next) {
        if (n % 4 == 0) {
          REQUIRE(ref.Send<&Subject::Next>(next).ok());
        } else {
          calls.push_back(ref.Call<&Subject::Next>(next));
        }
        if (n == 20) world.callee->CutConnections();
      }
      for (int64_t n = 0; n < 200; ++n) REQUIRE(numbers.Next().Get().value() == 200 * round + n);
      for (Future<void>& call : calls) {
        absl::Status status = call.Get();
        INFO("round " << round << ": " << status);
        REQUIRE(status.ok());
      }
      REQUIRE(Eventually([&] { return counters.resumed > before; }));
    }
    CHECK(ref.Call<&Subject::Count>().Get().value() == next);
    CHECK_FALSE(numbers.Next().Get().value().has_value());
    CHECK(ref.Call<&Subject::Open>(3).Get().ok());
    CHECK(open.Get().value() == 3);
    CHECK(counters.refused_frames + world.callee->transport->counters().refused_frames == 0);
  });
}

TEST_CASE("Contract: a call that became late on its way is withdrawn where it waits", "[contract]") {
  Over({&GrpcStream}, [](World& world) {  // In rings a call is nowhere for long.
    Ref<Subject> subject = world.ref(), beside = world.At(world.beside);
    Future<int64_t> busy = subject.Call<&Subject::AwaitGate>(beside);
    REQUIRE(beside.Call<&Subject::Echo>("x").Get().ok());
    world.callee->Stall(true);
    world.callee->CutConnections();
    Future<void> late = subject.WithTimeout(absl::Milliseconds(500)).Call<&Subject::Next>(0);
    CHECK(CallErrorKindOf(late.Get()) == v1::CallError::CALL_DEADLINE);
    world.callee->Stall(false);
    REQUIRE(beside.Call<&Subject::Open>(1).Get().ok());  // Comes behind all that.
    CHECK(busy.Get().value() == 1);
    CHECK(subject.Call<&Subject::Count>().Get().value() == 0);
  });
}

TEST_CASE("Contract: calls in flight end as 'may have run' when nobody listens any more, and the next call dials again",
          "[contract]") {
  OverEachConnection([](World& world) {
    Future<int64_t> open = world.ref().Call<&Subject::Gate>();
    REQUIRE(world.ref().Call<&Subject::Echo>("x").Get().ok());
    const Monotonic cut_at = MonotonicNow();
    world.callee->StopProxies();
    absl::Status cut = open.Get().status();
    CHECK(MonotonicNow() - cut_at < absl::Seconds(2));
    CHECK(CallErrorKindOf(cut) == v1::CallError::CALL_UNAVAILABLE);
    CHECK(std::string(cut.message()).find("may have run") != std::string::npos);
    world.callee->StartProxies();
    const Monotonic end = MonotonicNow() + absl::Seconds(5);
    while (!world.ref().Call<&Subject::Echo>("x").Get().ok() && MonotonicNow() < end) {
      PauseFor(absl::Milliseconds(10));
    }
    CHECK(world.ref().Call<&Subject::Echo>("x").Get().ok());
  });
}

TEST_CASE("Contract: a session that cannot go on within its timeout ends, with its calls and its streams on both sides",
          "[contract]") {
  Changed<absl::Duration> session_timeout(Side::session_timeout, absl::Milliseconds(200));
  OverEachConnection([](World& world) {
    Future<int64_t> open = world.ref().Call<&Subject::Gate>();
    int before = Subject::ended;
    StreamReader<int64_t> numbers = world.ref().Stream<&Subject::Numbers>(1'000'000, "");
    REQUIRE(numbers.Next().Get().value() == 0);
    world.callee->Stall(true);
    world.callee->CutConnections();
    const Monotonic cut_at = MonotonicNow();
    absl::Status late = open.Get().status();
    CHECK(MonotonicNow() - cut_at > absl::Milliseconds(150));
    CHECK(MonotonicNow() - cut_at < absl::Seconds(10));
    CHECK(CallErrorKindOf(late) == v1::CallError::CALL_UNAVAILABLE);
    CHECK(std::string(late.message()).find("in time; the call may have run") != std::string::npos);
    for (int i = 0; i < 5000 && Subject::ended == before; ++i) PauseFor(absl::Milliseconds(1));
    CHECK(Subject::ended == before + 1);
    world.callee->Stall(false);
    const Monotonic end = MonotonicNow() + absl::Seconds(10);
    while (!world.ref().Call<&Subject::Echo>("x").Get().ok() && MonotonicNow() < end) {
      PauseFor(absl::Milliseconds(10));
    }
    CHECK(world.ref().Call<&Subject::Echo>("x").Get().ok());
  });
}

TEST_CASE("Contract: a death that is known ends open calls with its cause, refuses later ones, and is told",
          "[contract]") {
  OverEach([](World& world) {
    std::atomic<int> told{0};
    world.caller->transport->Watch(world.address, [&told](const ActorLife& life, const v1::ExitCause& cause) {
      if (life.incarnation == 5 && cause.signal() == 9) ++told;
    });
    uint64_t unwanted =
        world.caller->transport->Watch(world.address, [&told](const ActorLife&, const v1::ExitCause&) { told = 100; });
    world.caller->transport->Unwatch(unwanted);
    Future<int64_t> open = world.ref().Call<&Subject::Gate>();
    StreamReader<int64_t> numbers = world.ref().Stream<&Subject::Numbers>(1'000'000, "");
    REQUIRE(numbers.Next().Get().value() == 0);
    v1::ExitCause cause;
    cause.set_signal(9);
    cause.set_text("killed by signal 9");
    world.caller->transport->MarkDead(world.address.life, cause);
    absl::StatusOr<std::optional<int64_t>> item = numbers.Next().Get();
    while (item.ok()) item = numbers.Next().Get();
    for (const absl::Status& status :
         {open.Get().status(), item.status(), world.ref().Call<&Subject::Echo>("x").Get().status()}) {
      CHECK(CallErrorKindOf(status) == v1::CallError::CALL_DIED);
      CHECK(CallErrorOf(status).cause().signal() == 9);
    }
    CHECK(world.ref().Send<&Subject::Echo>("x").code() == absl::StatusCode::kUnavailable);
    CHECK(told == 1);
    world.caller->transport->Watch(world.address, [&told](const ActorLife&, const v1::ExitCause&) { ++told; });
    CHECK(told == 2);
  });
}

}  // namespace
}  // namespace troupe
