// SPDX-License-Identifier: Apache-2.0
// Actors in one program: names, groups, trees, failures and what becomes of refs to them.
#include "runtime/embed/runtime.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runtime/actor/call_error.h"
#include "runtime/env/clock.h"
#include "runtime/env/testing/eventually.h"

namespace troupe_test {

// Counts its lives and ends.
class Node : public troupe::Actor {
 public:
  explicit Node(std::string name) : name_(std::move(name)) {
    if (name_ == "broken") throw std::runtime_error("no such part");
    if (name_ == "gated") ++at_gate;
    while (name_ == "gated" && gate_closed) troupe::PauseFor(absl::Milliseconds(1));
  }
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    if (name_ == "late") return absl::FailedPreconditionError("not today");
    if (name_ == "breaks again" && context.restarts() > 0) return absl::AbortedError("again");
    if (name_ == "slow") troupe::PauseFor(absl::Milliseconds(500));
    ++alive;
    counted_ = true;
    return absl::OkStatus();
  }
  void OnStop(std::string_view reason) override {
    troupe::MutexLock lock(mutex);
    stops.push_back(name_ + ": " + std::string(reason));
  }
  ~Node() override {
    if (counted_) --alive;
  }

  std::string Name() const { return name_; }
  int64_t Life() const { return static_cast<int64_t>(context_->self().incarnation); }
  absl::StatusOr<troupe::Ref<Node>> SpawnChild(const std::string& name, bool detached) {
    return context_->Spawn<Node>({.name = name, .detached = detached}, name);
  }
  void Throw() { throw std::runtime_error("broken inside"); }
  void StopSelf() { context_->StopSelf("I am done"); }
  void Link(troupe::Ref<Node> other) { context_->Link(other); }
  void Monitor(troupe::Ref<Node> other) {
    context_->Monitor(other, [this](const troupe::ActorLife& life, const troupe::v1::ExitCause& cause) {
      seen_ += life.path.role + ": " + cause.text() + ";";
    });
  }
  std::string Seen() const { return seen_; }
  void Sleep(int64_t ms) { troupe::PauseFor(absl::Milliseconds(ms)); }
  absl::StatusOr<int64_t> Half(int64_t n) {
    if (n % 2 != 0) return absl::InvalidArgumentError(std::to_string(n) + " is odd");
    return n / 2;
  }

  inline static std::atomic<int> alive{0};
  inline static std::atomic<int> at_gate{0};  // Constructors of "gated" that were begun.
  inline static std::atomic<bool> gate_closed{false};
  inline static troupe::Mutex mutex;
  inline static std::vector<std::string> stops;

 private:
  const std::string name_;
  bool counted_ = false;
  std::string seen_;
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Node, TROUPE_METHODS(Name, Life, SpawnChild, Throw, StopSelf, Link, Monitor, Seen, Sleep, Half),
             TROUPE_INIT(std::string));

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
  void Sleep(int64_t ms) {
    ++sleeping;
    troupe::PauseFor(absl::Milliseconds(ms));
    --sleeping;
  }

  inline static std::atomic<int> sleeping{0};

 private:
  std::vector<int64_t> written_;
  troupe::Promise<int64_t> never_;
};
TROUPE_ACTOR(Ledger, TROUPE_METHODS(Write, WritePacked, WriteInTask, Written, Address, Never, AwaitNever, Sleep),
             TROUPE_INIT());

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::Ledger;
using troupe_test::Node;
using troupe_test::Packed;

TEST_CASE("Runtime: actors are spawned, called, found by name and stopped", "[runtime]") {
  {
    Runtime runtime = Runtime::Local().value();
    Ref<Node> a = runtime.Spawn<Node>({.name = "a", .labels = {{"zone", "1"}}}, "one").value();
    CHECK(a.Call<&Node::Name>().Get().value() == "one");
    CHECK(runtime.Find<Node>("a").value() == a);
    CHECK(runtime.Find<Node>("b").status().code() == absl::StatusCode::kNotFound);
    CHECK(runtime.Spawn<Node>({.name = "a"}, "two").status().code() == absl::StatusCode::kAlreadyExists);
    CHECK(runtime.Spawn<Node>({.name = "a b"}, "two").status().code() == absl::StatusCode::kInvalidArgument);
    Ref<Node> unnamed = runtime.Spawn<Node>({.own_thread = true}, "two").value();
    CHECK(unnamed.life().ToString() == "local/Node-1/0#2");
    REQUIRE(runtime.List().size() == 2);
    CHECK(runtime.List()[1].labels.at("zone") == "1");

    CHECK(runtime.Stop(a, "enough").ok());
    CHECK(runtime.Stop(a, "enough").ok());
    absl::Status gone = a.Call<&Node::Name>().Get().status();
    CHECK(CallErrorKindOf(gone) == v1::CallError::CALL_DIED);
    CHECK(std::string(gone.message()).find("enough") != std::string::npos);
    Ref<Node> again = runtime.Spawn<Node>({.name = "a"}, "three").value();
    CHECK(again.life().incarnation > a.life().incarnation);
    absl::Status stale = a.Call<&Node::Name>().Get().status();
    CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
    CHECK(runtime.Latest(a).value() == again);
  }
  CHECK(Node::alive == 0);
}

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
  CHECK(runtime.Find<Node>(ledger.life().path.role)->Call<&Node::Name>().Get().status().code() ==
        absl::StatusCode::kUnimplemented);
}

TEST_CASE("Calls: one within the process ends by its deadline, however its future is used", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Ledger> ledger = runtime.Spawn<Ledger>({}).value(), other = runtime.Spawn<Ledger>({}).value();
  Future<void> busy = ledger.Call<&Ledger::Sleep>(300);
  REQUIRE(Eventually([] { return Ledger::sleeping == 1; }));
  Ref<Ledger> hasty = ledger.WithTimeout(absl::Milliseconds(20));
  std::atomic<int> told{0};
  hasty.Call<&Ledger::Write>(1).Then([&told](const absl::Status& status) {
    if (CallErrorKindOf(status) == v1::CallError::CALL_DEADLINE) ++told;
  });
  std::vector<Future<void>> two;
  two.push_back(hasty.Call<&Ledger::Write>(2));
  two.push_back(hasty.WithTimeout(absl::Seconds(10)).Call<&Ledger::Write>(3));
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
  CHECK(waits.Get().ok());
  CHECK(ledger.Call<&Ledger::Written>().Get().value() == std::vector<int64_t>{3, 5});
  CHECK(CallErrorKindOf(hasty.Call<&Ledger::AwaitNever>(other).Get().status()) == v1::CallError::CALL_DEADLINE);
}

TEST_CASE("Calls: those that wait when their actor is stopped are answered at once, later ones with its end",
          "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Ledger> ledger = runtime.Spawn<Ledger>({}).value();
  Future<void> busy = ledger.Call<&Ledger::Sleep>(200);
  REQUIRE(Eventually([] { return Ledger::sleeping == 1; }));
  Future<void> waits = ledger.Call<&Ledger::Write>(1);
  CHECK(runtime.Stop(ledger, "enough", absl::ZeroDuration()).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(CallErrorKindOf(waits.Get()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK_FALSE(busy.Ready());
  CHECK(CallErrorKindOf(ledger.Call<&Ledger::Write>(2).Get()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(busy.Get().ok());
  CHECK(runtime.Stop(ledger, "enough").ok());
  CHECK(CallErrorKindOf(ledger.Call<&Ledger::Write>(3).Get()) == v1::CallError::CALL_DIED);
  CHECK(CallErrorKindOf(ledger.Send<&Ledger::Write>(4)) == v1::CallError::CALL_DIED);
}

TEST_CASE("Runtime: a constructor or OnStart that fails says why, and its name is free", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  absl::Status broken = runtime.Spawn<Node>({.name = "x"}, "broken").status();
  CHECK(std::string(broken.message()) == "actor x (Node): the constructor threw: no such part");
  CHECK(runtime.Spawn<Node>({.name = "x"}, "late").status() ==
        absl::FailedPreconditionError("actor x (Node): not today"));
  CHECK(runtime.Spawn<Node>({.name = "x"}, "good").ok());
}

TEST_CASE("Group: each member has its result or error; scatter, gather and reduce", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Group<Node> group = runtime.SpawnGroup<Node>(3, {.name = "node"}, "n").value();
  CHECK(group.Broadcast<&Node::Name>().All().value() == std::vector<std::string>{"n", "n", "n"});
  CHECK(group.Scatter<&Node::Half>(std::vector<int64_t>{2, 4, 6}).Reduce(std::minus<>()).value() == 1 - 2 - 3);
  std::vector<absl::StatusOr<int64_t>> halves = group.Scatter<&Node::Half>(std::vector<int64_t>{2, 5, 6}).Get();
  CHECK(halves[0].value() == 1);
  CHECK(halves[1].status() == absl::InvalidArgumentError("5 is odd"));
  CHECK(halves[2].value() == 3);
  absl::Status error = group.Scatter<&Node::Half>(std::vector<int64_t>{2, 5, 7}).All().status();
  CHECK(std::string(error.message()) == "2 of 3 members failed, local/node.1/0#2 first: 5 is odd");
  CHECK(group.Scatter<&Node::Half>(std::vector<int64_t>{2}).All().status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(group.Broadcast<&Node::Sleep>(0).All().ok());
  CHECK(runtime.SpawnGroup<Node>(2, {.name = "late"}, "late").status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Trees: children end with their parent, the parent last; detached ones live on", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> root = runtime.Spawn<Node>({.name = "root"}, "root").value();
  Ref<Node> child = root.Call<&Node::SpawnChild>("child", false).Get().value();
  Ref<Node> grandchild = child.Call<&Node::SpawnChild>("grandchild", false).Get().value();
  Ref<Node> detached = root.Call<&Node::SpawnChild>("detached", true).Get().value();
  CHECK(grandchild.Call<&Node::Name>().Get().value() == "grandchild");
  CHECK(runtime.Stop(root, "enough").ok());
  CHECK(Node::alive == 1);
  CHECK(CallErrorKindOf(grandchild.Call<&Node::Name>().Get().status()) == v1::CallError::CALL_DIED);
  CHECK(detached.Call<&Node::Name>().Get().ok());
}

TEST_CASE("Restart: a failed actor gets a next life, and refs to the old one are told of it", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  RestartOptions restart = {.max = 2, .backoff_initial = absl::Milliseconds(1), .on_exception = true};
  Ref<Node> first = runtime.Spawn<Node>({.name = "phoenix", .restart = restart}, "p").value();
  Ref<Node> child = first.Call<&Node::SpawnChild>("chick", false).Get().value();
  CHECK(std::string(first.Call<&Node::Throw>().Get().message()).find("broken inside") != std::string::npos);
  REQUIRE(Eventually([&] {
    return runtime.Latest(first).ok() && !(runtime.Latest(first).value() == first) &&
           runtime.Latest(first)->Call<&Node::Name>().Get().ok();
  }));
  absl::Status stale = first.Call<&Node::Name>().Get().status();
  CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
  CHECK(CallErrorOf(stale).current_incarnation() == runtime.Latest(first)->life().incarnation);
  CHECK_FALSE(child.Call<&Node::Name>().Get().ok());
  CHECK(runtime.List()[0].restarts == 1);
  for (int i = 0; i < 2; ++i) {
    Ref<Node> now = runtime.Latest(first).value();
    (void)now.Call<&Node::Throw>().Get();
    REQUIRE(Eventually([&] { return !runtime.Latest(first).ok() || !(runtime.Latest(first).value() == now); }));
  }
  // One more than it may.
  CHECK(Eventually([&] { return runtime.Latest(first).status().code() == absl::StatusCode::kNotFound; }));
  CHECK(Eventually([] { return Node::alive == 0; }));
}

TEST_CASE("Restart: an OnStart that fails each time ends in quarantine with its cause", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  RestartOptions restart = {.max = 3, .backoff_initial = absl::Milliseconds(1), .on_exception = true};
  Ref<Node> watcher = runtime.Spawn<Node>({.name = "watcher"}, "w").value();
  Ref<Node> first = runtime.Spawn<Node>({.name = "crash", .restart = restart}, "breaks again").value();
  REQUIRE(watcher.Call<&Node::Monitor>(first).Get().ok());
  (void)first.Call<&Node::Throw>().Get();
  CHECK(Eventually([&] { return runtime.Latest(first).status().code() == absl::StatusCode::kNotFound; }));
  CHECK(watcher.Call<&Node::Seen>().Get().value() == "crash: INTERNAL: the method threw: broken inside;");
  // Three more lives were begun, each of which failed as it started; the last one's cause stays.
  ActorAddress last = first.address();
  last.life.incarnation += 3;
  absl::Status died = Ref<Node>(last, runtime.router()).Call<&Node::Name>().Get().status();
  CHECK(CallErrorKindOf(died) == v1::CallError::CALL_DIED);
  CHECK(CallErrorOf(died).cause().kind() == v1::ExitCause::START_FAILED);
  CHECK(CallErrorOf(died).cause().text() == "OnStart: ABORTED: again");
  ++last.life.incarnation;
  CHECK(CallErrorKindOf(Ref<Node>(last, runtime.router()).Call<&Node::Name>().Get().status()) ==
        v1::CallError::CALL_UNAVAILABLE);
  CHECK(runtime.Spawn<Node>({.name = "crash"}, "n").ok());
}

TEST_CASE("Stop: one that comes while the next life is constructed ends that life", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  Node::at_gate = 0;
  Ref<Node> first = runtime.Spawn<Node>({.name = "a", .restart = {.max = 1, .on_exception = true}}, "gated").value();
  Node::gate_closed = true;
  (void)first.Call<&Node::Throw>().Get();
  REQUIRE(Eventually([] { return Node::at_gate == 2; }));
  // Nobody has heard of the next life yet.
  CHECK(runtime.Stop(first, "enough", absl::Milliseconds(10)).code() == absl::StatusCode::kDeadlineExceeded);
  Node::gate_closed = false;
  CHECK(Eventually([&] { return runtime.List().empty(); }));
  CHECK(Node::alive == 0);
}

TEST_CASE("Runtime: its end also stops what an actor is spawning then", "[runtime]") {
  Node::at_gate = 0;
  Node::gate_closed = true;
  auto runtime = std::make_unique<Runtime>(Runtime::Local({.threads = 2}).value());
  Ref<Node> parent = runtime->Spawn<Node>({.name = "parent"}, "p").value();
  Future<Ref<Node>> spawned = parent.Call<&Node::SpawnChild>("gated", true);
  REQUIRE(Eventually([] { return Node::at_gate == 1; }));
  std::thread opening([] {
    PauseFor(absl::Milliseconds(50));  // The end has begun by then.
    Node::gate_closed = false;
  });
  runtime = nullptr;
  opening.join();
  CHECK(spawned.Get().status().code() == absl::StatusCode::kUnavailable);
  CHECK(Node::alive == 0);
}

TEST_CASE("Spawn: an OnStart that does not end in time is told, and its name is free when it has ended", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  SpawnOptions options = {.name = "a", .start_timeout = absl::Milliseconds(20)};
  absl::Status late = runtime.Spawn<Node>(options, "slow").status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(late.message()).find("actor a (Node): OnStart has not ended within 20ms") == 0);
  CHECK(runtime.Spawn<Node>(options, "n").status().code() == absl::StatusCode::kAlreadyExists);
  absl::StatusOr<Ref<Node>> again = late;
  CHECK(Eventually([&] {
    if (!again.ok()) again = runtime.Spawn<Node>(options, "n");
    return again.ok();
  }));
  CHECK(Node::alive == 1);
}

TEST_CASE("Monitors and links: the end of another is told, or shared", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> watcher = runtime.Spawn<Node>({.name = "watcher"}, "w").value();
  Ref<Node> a = runtime.Spawn<Node>({.name = "a", .restart = {.on_exception = true}}, "a").value();
  Ref<Node> b = runtime.Spawn<Node>({.name = "b", .restart = {.on_exception = true}}, "b").value();
  Ref<Node> c = runtime.Spawn<Node>({.name = "c"}, "c").value();
  REQUIRE(a.Call<&Node::Link>(b).Get().ok());
  REQUIRE(b.Call<&Node::Link>(c).Get().ok());
  for (const Ref<Node>& ref : {a, b, c}) REQUIRE(watcher.Call<&Node::Monitor>(ref).Get().ok());
  // The end of b reaches a, which has linked itself to it, and c, to which b has.
  (void)b.Call<&Node::Throw>().Get();
  std::string seen;
  CHECK(Eventually([&] {
    seen = watcher.Call<&Node::Seen>().Get().value();
    return seen.find("a: ") != std::string::npos && seen.find("c: ") != std::string::npos;
  }));
  INFO(seen);
  CHECK(seen.find("b: INTERNAL: the method threw: broken inside;") != std::string::npos);
  CHECK(seen.find("a: linked to local/b/0#3, which ended") != std::string::npos);
  CHECK(seen.find("c: linked to local/b/0#3, which ended") != std::string::npos);
  // A monitor of what has ended is told at once; a stop is told as one, and links let it pass.
  REQUIRE(watcher.Call<&Node::Monitor>(b).Get().ok());
  Ref<Node> d = runtime.Spawn<Node>({.name = "d"}, "d").value();
  REQUIRE(watcher.Call<&Node::Link>(d).Get().ok());
  REQUIRE(watcher.Call<&Node::Monitor>(d).Get().ok());
  REQUIRE(d.Call<&Node::StopSelf>().Get().ok());
  CHECK(Eventually([&] {
    seen = watcher.Call<&Node::Seen>().Get().value_or("");
    return seen.find("d: I am done;") != std::string::npos;
  }));
}

TEST_CASE("Stop: a handler that does not end by the grace is told, and the stop goes on", "[runtime]") {
  Runtime runtime = Runtime::Local().value();
  Ref<Node> a = runtime.Spawn<Node>({.name = "a"}, "a").value();
  Future<void> busy = a.Call<&Node::Sleep>(300);
  PauseFor(absl::Milliseconds(50));
  CHECK(runtime.Stop(a, "now", absl::Milliseconds(10)).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(busy.Get().ok());
  CHECK(runtime.Stop(a, "now").ok());
}

TEST_CASE("Runtime: thousands of actors come and go, and a mailbox bound is kept", "[runtime]") {
  Runtime runtime = Runtime::Local({.threads = 2}).value();
  for (int round = 0; round < 3; ++round) {
    std::vector<Ref<Node>> refs;
    for (int i = 0; i < 1000; ++i) refs.push_back(runtime.Spawn<Node>({}, "n").value());
    for (const Ref<Node>& ref : refs) CHECK(runtime.Stop(ref, "enough").ok());
  }
  CHECK(Node::alive == 0);
  CHECK(runtime.List().empty());
  Ref<Node> small = runtime.Spawn<Node>({.mailbox = {.messages_max = 2}}, "n").value();
  std::vector<Future<void>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(small.Call<&Node::Sleep>(20));
  int overloaded = 0;
  for (Future<void>& call : calls) overloaded += CallErrorKindOf(call.Get()) == v1::CallError::CALL_OVERLOADED;
  CHECK(overloaded >= 7);
}

}  // namespace
}  // namespace troupe
