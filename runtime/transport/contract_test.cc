// SPDX-License-Identifier: Apache-2.0
// The contract of a call (DESIGN.md), as one suite over every transport: within a process, and between two over a gRPC
// stream and over shared-memory rings.
#include "runtime/transport/testing/contract_world.h"

namespace troupe {
namespace {

TEST_CASE("Contract: results, refs and the handler's own errors arrive as they were", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    CHECK(ref.Call<&Subject::Echo>(std::string("\0 \xff", 3)).Get().value() == std::string("\0 \xff", 3));
    absl::Status failed = ref.Call<&Subject::Fail>("no more").Get();
    CHECK(failed == absl::DataLossError("no more"));
    CHECK(CallErrorKindOf(failed) == v1::CallError::CALL_HANDLER);
    absl::Status thrown = ref.Call<&Subject::Throw>().Get();
    CHECK(thrown == absl::InternalError("the method threw: broken inside"));
    CHECK(ref.Call<&Subject::AskThroughRef>(world.At(world.second), "x").Get().value() == "x");
    CHECK(ref.Call<&Subject::Pass>(world.At(world.second)).Get()->Call<&Subject::Echo>("y").Get().value() == "y");
  });
}

TEST_CASE("Contract: calls and one-way messages of a sender arrive in their order, once", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    std::vector<Future<void>> calls;
    for (int64_t n = 0; n < 2000; ++n) {
      if (n % 3 == 0) {
        REQUIRE(ref.Send<&Subject::Next>(n).ok());
      } else {
        calls.push_back(ref.Call<&Subject::Next>(n));
      }
      if (n % 32 == 31) REQUIRE(WaitAll(calls).ok());  // Less than a mailbox at once.
    }
    for (Future<void>& call : calls) CHECK(call.Get().ok());
    CHECK(ref.Call<&Subject::Count>().Get().value() == 2000);
  });
}

TEST_CASE("Contract: callers and handlers that take turns run on all their processors", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    const int64_t processors = ProcessorsOfThread();
    for (int i = 0; i < 2000; ++i) {
      REQUIRE(ref.Call<&Subject::Processors>().Get().value() == processors);
      REQUIRE(ProcessorsOfThread() == processors);
    }
  });
}

TEST_CASE("Contract: every call ends by its deadline, and one that waited past it is not begun", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    Future<void> busy = ref.Call<&Subject::Sleep>(1000);
    Future<void> late = ref.WithTimeout(absl::Milliseconds(20)).Call<&Subject::Next>(0);
    Future<int64_t> never = ref.WithTimeout(absl::Milliseconds(30)).Call<&Subject::Gate>();
    Monotonic start = MonotonicNow();
    CHECK(CallErrorKindOf(late.Get()) == v1::CallError::CALL_DEADLINE);
    CHECK(CallErrorKindOf(never.Get().status()) == v1::CallError::CALL_DEADLINE);
    CHECK(MonotonicNow() - start < absl::Milliseconds(900));  // While it is busy.
    CHECK(busy.Get().ok());
    CHECK(ref.Call<&Subject::Count>().Get().value() == 0);
  });
}

TEST_CASE("Contract: a full mailbox and a large message are refused at once, with the limit", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    Future<void> busy = ref.Call<&Subject::Sleep>(100);
    std::vector<Future<std::string>> calls;
    for (size_t i = 0; i < 2 * kMailboxMax; ++i) calls.push_back(ref.Call<&Subject::Echo>("x"));
    size_t overloaded = 0;
    for (Future<std::string>& call : calls) {
      overloaded += CallErrorKindOf(call.Get().status()) == v1::CallError::CALL_OVERLOADED;
    }
    CHECK(overloaded >= kMailboxMax - 1);
    CHECK(overloaded < 2 * kMailboxMax);
    CHECK(busy.Get().ok());
    absl::Status large = ref.Call<&Subject::Echo>(std::string(kPayloadMax + 1, 'x')).Get().status();
    CHECK(CallErrorKindOf(large) == v1::CallError::CALL_TOO_LARGE);
    CHECK(std::string(large.message()).find(std::to_string(kPayloadMax)) != std::string::npos);
    CHECK(ref.Send<&Subject::Echo>(std::string(kPayloadMax + 1, 'x')).code() == absl::StatusCode::kResourceExhausted);
    CHECK(ref.Call<&Subject::Echo>("still there").Get().ok());
  });
}

constexpr size_t kLarge = 48 << 20;  // So that a mailbox has room for more beside it.

TEST_CASE("Contract: a large payload arrives whole and in its place, and small calls to others pass it by",
          "[contract]") {
  Changed<size_t> payload_max(Side::payload_max, kLarge + 1024);
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref(), beside = world.At(world.beside);
    const std::string large(kLarge, 'x');
    Future<int64_t> size = ref.Call<&Subject::Size>(large);
    REQUIRE(ref.Send<&Subject::Next>(0).ok());
    Future<int64_t> last = ref.Call<&Subject::LastSize>();
    int passed = 0;
    for (; !size.Ready(); ++passed) REQUIRE(beside.Call<&Subject::Echo>("small").Get().ok());
    CHECK((passed >= 5 || world.callee == nullptr));
    CHECK(size.Get().value() == static_cast<int64_t>(kLarge));
    CHECK(last.Get().value() == static_cast<int64_t>(kLarge));
    CHECK(ref.Call<&Subject::Count>().Get().value() == 1);
    CHECK(ref.Call<&Subject::Big>(static_cast<int64_t>(kLarge)).Get().value() == large);
    StreamReader<std::string> blobs = ref.Stream<&Subject::Blobs>(3, 5 << 20);
    for (int i = 0; i < 3; ++i) REQUIRE(blobs.Next().Get().value()->size() == 5 << 20);
    CHECK_FALSE(blobs.Next().Get().value().has_value());
    absl::Status refused = ref.Call<&Subject::Size>(std::string(kLarge + 1025, 'x')).Get().status();
    CHECK(CallErrorKindOf(refused) == v1::CallError::CALL_TOO_LARGE);
    CHECK(std::string(refused.message()).find(std::to_string(kLarge + 1024)) != std::string::npos);

    Future<int64_t> unwanted = ref.Call<&Subject::Size>(std::string(kLarge / 2, 'x'));
    unwanted.Cancel();
    absl::Status cancelled = unwanted.Get().status();  // Within a process it may have been answered already.
    CHECK((CallErrorKindOf(cancelled) == v1::CallError::CALL_CANCELLED || (world.callee == nullptr && cancelled.ok())));
    CHECK(ref.Call<&Subject::Echo>("goes on").Get().ok());
    if (world.callee == nullptr) return;
    Future<int64_t> cut = ref.Call<&Subject::Size>(large);
    world.callee->CutConnections();
    CHECK(cut.Get().value() == static_cast<int64_t>(kLarge));
  });
}

TEST_CASE("Contract: replies that are larger than all that may wait are sent as they are acknowledged", "[contract]") {
  FrameLimits small;
  small.queue_bytes_max = 256 << 10;
  small.kept_bytes_max = 128 << 10;
  small.acknowledge_bytes = 32 << 10;
  Changed<FrameLimits> frames(Side::frames, small);
  OverEach([](World& world) {
    std::vector<Future<std::string>> calls;
    for (size_t i = 0; i < kMailboxMax; ++i) calls.push_back(world.ref().Call<&Subject::Big>(60'000));
    for (Future<std::string>& call : calls)
      REQUIRE(call.Get(MonotonicNow() + absl::Seconds(10)).value().size() == 60'000);
  });
}

TEST_CASE("Contract: a process tells to whom it is connected, who is connected to it, and how", "[contract]") {
  OverEachConnection([](World& world) {
    REQUIRE(world.ref().Call<&Subject::Echo>("x").Get().ok());
    std::vector<Connection> dialed = world.caller->transport->Connections();
    REQUIRE(dialed.size() == 1);
    CHECK(dialed[0].process == "job/subject/0#5");
    CHECK(dialed[0].dialed);
    CHECK(dialed[0].how.find(world.name) == 0);
    if (!world.callee->has_rings) CHECK(dialed[0].how.find(".ring") != std::string::npos);  // Why.
    std::vector<Connection> taken = world.callee->transport->Connections();
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].process == "caller");
    CHECK_FALSE(taken[0].dialed);
    CHECK(taken[0].how == world.name);
    CHECK(world.callee->contexts[0]->connections().size() == 1);
  });
}

TEST_CASE("Contract: stale, unknown and foreign calls do not run, and are told apart", "[contract]") {
  OverEach([](World& world) {
    ActorAddress other = world.address;
    other.life.incarnation = 3;
    absl::Status stale = world.At(other).Call<&Subject::Next>(0).Get();
    CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
    CHECK(CallErrorOf(stale).current_incarnation() == 5);
    other.life.incarnation = 9;
    CHECK(CallErrorKindOf(world.At(other).Call<&Subject::Next>(0).Get()) == v1::CallError::CALL_UNAVAILABLE);
    absl::Status foreign = Ref<Other>(world.address, world.caller->transport).Call<&Other::Foreign>("x").Get().status();
    CHECK(foreign.code() == absl::StatusCode::kUnimplemented);
    CHECK(CallErrorKindOf(foreign) == v1::CallError::CALL_MALFORMED);
    OutgoingCall wrong;
    wrong.method = "Subject.Next";
    wrong.arguments = Encode(std::tuple<std::string>("no number"));
    Promise<std::string> reply;
    Future<std::string> answer = reply.TakeFuture();
    wrong.reply = [reply](absl::StatusOr<std::string> result) { reply.Set(std::move(result)); };
    world.caller->transport->Call(world.address, std::move(wrong));
    CHECK(CallErrorKindOf(answer.Get().status()) == v1::CallError::CALL_MALFORMED);
    CHECK(world.ref().Call<&Subject::Count>().Get().value() == 0);
  });
}

TEST_CASE("Contract: a cancelled call ends at once, and is not begun if it was not", "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> ref = world.ref();
    Future<void> busy = ref.Call<&Subject::Sleep>(100);
    Future<void> waits = ref.Call<&Subject::Next>(0);
    Future<int64_t> runs = ref.Call<&Subject::Gate>();
    waits.Cancel();
    CHECK(CallErrorKindOf(waits.Get()) == v1::CallError::CALL_CANCELLED);
    CHECK(busy.Get().ok());
    CHECK(ref.Call<&Subject::Count>().Get().value() == 0);
    runs.Cancel();
    CHECK(CallErrorKindOf(runs.Get().status()) == v1::CallError::CALL_CANCELLED);
    CHECK(ref.Call<&Subject::Open>(1).Get().ok());
  });
}

TEST_CASE("Contract: actors that would wait for each other for ever are told which; those that only wait long are not",
          "[contract]") {
  OverEach([](World& world) {
    Ref<Subject> subject = world.ref(), second = world.At(world.second);
    CHECK(subject.Call<&Subject::AwaitSleep>(second, 350).Get().ok());
    Monotonic start = MonotonicNow();
    Future<std::string> blocks = subject.Call<&Subject::BlockAround>(second, subject);
    Future<std::string> awaits = second.Call<&Subject::AskAround>(subject, second);
    int told = 0;
    for (const absl::Status& status : {blocks.Get().status(), awaits.Get().status()}) {
      if (status.ok()) continue;  // The other one was told, and was free then.
      ++told;
      CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
      std::string text(status.message());
      CHECK(text.find("for ever: job/s") != std::string::npos);
      CHECK(text.find("job/second/0#5") != std::string::npos);
      CHECK(text.find("job/subject/0#5") != std::string::npos);
    }
    CHECK(told >= 1);
    CHECK(MonotonicNow() - start < absl::Seconds(10));  // Of a deadline of a minute.
    CHECK(subject.Call<&Subject::BlockOnRef>(second, "free").Get().value() == "free");
    CHECK(second.Call<&Subject::BlockOnRef>(subject, "free").Get().value() == "free");
  });
}

TEST_CASE("Contract: a stream's items come in order, then its end or error", "[contract]") {
  OverEach([](World& world) {
    for (const std::string& error : {std::string(), std::string("no more")}) {
      StreamReader<int64_t> numbers = world.ref().Stream<&Subject::Numbers>(1000, error);
      for (int64_t i = 0; i < 1000; ++i) REQUIRE(numbers.Next().Get().value() == i);
      absl::StatusOr<std::optional<int64_t>> end = numbers.Next().Get();
      CHECK(end.status() == (error.empty() ? absl::OkStatus() : absl::DataLossError(error)));
      if (end.ok()) CHECK_FALSE(end->has_value());
    }
    StreamReader<int64_t> absent =
        world.At({{{JobId("job"), "nobody", 0}, 1}, world.address.endpoint}).Stream<&Subject::Numbers>(1, "");
    CHECK(CallErrorKindOf(absent.Next().Get().status()) == v1::CallError::CALL_UNAVAILABLE);
  });
}

TEST_CASE("Contract: a stream keeps to its window in items and in bytes", "[contract]") {
  OverEach([](World& world) {
    Subject::produced = 0;
    StreamReader<int64_t> numbers = world.ref().StreamWithin<&Subject::Numbers>({.items = 8}, 1'000'000, "");
    for (int64_t i = 0; i < 100; ++i) REQUIRE(numbers.Next().Get().value() == i);
    PauseFor(absl::Milliseconds(30));
    CHECK(Subject::produced <= 109);
    numbers.Cancel();
    Subject::produced = 0;
    StreamReader<std::string> blobs =
        world.ref().StreamWithin<&Subject::Blobs>({.items = 1000, .bytes = 100'000}, 1000, 30'000);
    REQUIRE(blobs.Next().Get().ok());
    PauseFor(absl::Milliseconds(30));
    CHECK(Subject::produced <= 6);
    for (int i = 0; i < 50; ++i) REQUIRE(blobs.Next().Get().ok());
    StreamReader<std::string> large = world.ref().Stream<&Subject::Blobs>(2, static_cast<int64_t>(kPayloadMax) + 1);
    if (world.callee != nullptr) {
      CHECK(CallErrorKindOf(large.Next().Get().status()) == v1::CallError::CALL_TOO_LARGE);
    }
  });
}

TEST_CASE("Contract: a stream that is left, late or cut ends its producer", "[contract]") {
  OverEach([](World& world) {
    auto ended = [](int count) {
      for (int i = 0; i < 2000 && Subject::ended < count; ++i) PauseFor(absl::Milliseconds(1));
      return Subject::ended.load();
    };
    int before = Subject::ended;
    {
      StreamReader<int64_t> left = world.ref().Stream<&Subject::Numbers>(1'000'000, "");
      REQUIRE(left.Next().Get().value() == 0);
    }
    CHECK(ended(before + 1) == before + 1);
    StreamReader<int64_t> late =
        world.ref().WithTimeout(absl::Milliseconds(30)).Stream<&Subject::Numbers>(1'000'000, "");
    PauseFor(absl::Milliseconds(60));
    absl::StatusOr<std::optional<int64_t>> item = late.Next().Get();
    while (item.ok()) item = late.Next().Get();
    CHECK(CallErrorKindOf(item.status()) == v1::CallError::CALL_DEADLINE);
    CHECK(ended(before + 2) == before + 2);
    StreamReader<int64_t> cut = world.ref().Stream<&Subject::Numbers>(1'000'000, "");
    REQUIRE(cut.Next().Get().value() == 0);
    CHECK(world.side().cells[0]->Stop("enough", MonotonicNow() + absl::Seconds(10)));
    CHECK(ended(before + 3) == before + 3);
  });
}

}  // namespace
}  // namespace troupe
