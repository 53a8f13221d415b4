// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/actor.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "runtime/actor/actor_host.h"
#include "runtime/actor/json_arguments.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/testing/host_router.h"
#include "runtime/env/clock.h"

namespace troupe_test {

using troupe::Future;
using troupe::Promise;

class Counter : public troupe::Actor {
 public:
  explicit Counter(int64_t start) : value_(start) {
    if (start < 0) throw std::runtime_error("negative");
  }
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    thread_ = std::this_thread::get_id();
    return value_ == 13 ? absl::FailedPreconditionError("unlucky") : absl::OkStatus();
  }
  void OnStop(std::string_view reason) override { stop_reason = std::string(reason); }

  int64_t Add(int64_t n) {
    if (std::this_thread::get_id() != thread_) return -1;
    return value_ += n;
  }
  void Reset() { value_ = 0; }
  absl::Status Refuse(const std::string& why) const { return absl::NotFoundError(why); }
  absl::StatusOr<std::vector<std::string>> Split(std::string text, std::optional<int> limit) {
    if (limit.has_value()) return absl::OutOfRangeError("limit " + std::to_string(*limit));
    return std::vector<std::string>{text, text};
  }
  std::string Throw() { throw std::runtime_error("broken inside"); }
  Future<int64_t> Later(bool now) {
    if (now) later_.Set(value_);
    return now ? Future<int64_t>::Of(0) : later_.TakeFuture();
  }
  void Wait() {
    while (!context_->stopping()) troupe::PauseFor(absl::Milliseconds(1));
  }

  // Does not look at the context.
  void Block() {
    blocked = true;
    while (blocked) troupe::PauseFor(absl::Milliseconds(1));
  }

  inline static std::string stop_reason;
  inline static std::atomic<bool> blocked{false};

 private:
  int64_t value_;
  Promise<int64_t> later_;
  std::thread::id thread_;
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Counter, TROUPE_METHODS(Add, Reset, Refuse, Split, Throw, Later, Wait, Block), TROUPE_INIT(int64_t));

class Greeter : public troupe::Actor {
 public:
  Greeter(std::string name, std::map<std::string, double> weights) : text_(name + std::to_string(weights["a"])) {}
  std::string Text() { return text_; }

 private:
  std::string text_;
};
TROUPE_ACTOR(Greeter, TROUPE_METHODS(Text), TROUPE_INIT(std::string, std::map<std::string, double>));

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::Counter;
using troupe_test::Greeter;

struct Fixture {
  explicit Fixture(bool doors = false) : router(std::make_shared<testing::HostRouter>(host, doors)) {}

  ActorHost host;
  std::shared_ptr<testing::HostRouter> router;
  std::shared_ptr<ActorContext> context;
  std::shared_ptr<ActorCell> cell;

  template <typename T>
  absl::StatusOr<Ref<T>> Spawn(const std::string& name, const std::string& args_json, MailboxLimits limits = {},
                               uint64_t incarnation = 5) {
    ActorSetting setting;
    setting.self = {{JobId("job"), name, 0}, incarnation};
    context = std::make_shared<ActorContext>(setting, router, nullptr);
    TROUPE_ASSIGN_OR_RETURN(auto actor, ActorRegistry::Global().ConstructFromJson(name, args_json));
    cell = std::make_shared<ActorCell>(**ActorRegistry::Global().Find(name), std::move(actor), *context,
                                       ActorCellOptions{.mailbox = limits});
    TROUPE_RETURN_IF_ERROR(cell->Start());
    host.Add(cell);
    return Ref<T>({setting.self, ""}, router);
  }
  ~Fixture() {
    if (cell != nullptr) cell->Stop("the test ends", MonotonicNow() + absl::Seconds(10));
  }
};

TEST_CASE("Actor: methods take arguments, keep state, and return values, statuses and nothing", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]").value();
  CHECK(counter.Call<&Counter::Add>(5).Get().value() == 15);
  CHECK(counter.Call<&Counter::Add>(-1).Get().value() == 14);
  CHECK(counter.Call<&Counter::Reset>().Get().ok());
  CHECK(counter.Call<&Counter::Add>(1).Get().value() == 1);
  CHECK(counter.Call<&Counter::Split>("x", std::nullopt).Get().value() == std::vector<std::string>{"x", "x"});
}

TEST_CASE("Actor: the handler's own error keeps its code and text and is told from the call's", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]").value();
  absl::Status status = counter.Call<&Counter::Refuse>("no such row").Get();
  CHECK(status == absl::NotFoundError("no such row"));
  CHECK(CallErrorKindOf(status) == v1::CallError::CALL_HANDLER);
  CHECK(counter.Call<&Counter::Split>("x", 3).Get().status() == absl::OutOfRangeError("limit 3"));
  absl::Status thrown = counter.Call<&Counter::Throw>().Get().status();
  CHECK(thrown.code() == absl::StatusCode::kInternal);
  CHECK(std::string(thrown.message()).find("broken inside") != std::string::npos);
  CHECK(counter.Call<&Counter::Add>(0).Get().ok());
}

TEST_CASE("Actor: a method that returns a future lets the next message in", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]").value();
  Future<int64_t> later = counter.Call<&Counter::Later>(false);
  CHECK(counter.Call<&Counter::Add>(1).Get().value() == 11);
  CHECK_FALSE(later.Ready());
  CHECK(counter.Call<&Counter::Later>(true).Get().ok());
  CHECK(later.Get().value() == 11);
}

TEST_CASE("Actor: stale, absent, overloaded, late and unknown are told apart", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]", {.messages_max = 1, .bytes_max = 1 << 20}).value();
  auto ref_of = [&](uint64_t incarnation) {
    ActorAddress address = counter.address();
    address.life.incarnation = incarnation;
    return Ref<Counter>(address, fixture.router);
  };
  absl::Status stale = ref_of(4).Call<&Counter::Add>(1).Get().status();
  CHECK(CallErrorKindOf(stale) == v1::CallError::CALL_STALE_EPOCH);
  CHECK(CallErrorOf(stale).current_incarnation() == 5);
  CHECK(stale.code() == absl::StatusCode::kAborted);
  CHECK(CallErrorKindOf(ref_of(6).Call<&Counter::Add>(1).Get().status()) == v1::CallError::CALL_UNAVAILABLE);
  CHECK(CallErrorKindOf(Ref<Counter>().Call<&Counter::Add>(1).Get().status()) == v1::CallError::CALL_UNAVAILABLE);

  Ref<Greeter> impostor(counter.address(), fixture.router);
  CHECK(impostor.Call<&Greeter::Text>().Get().status().code() == absl::StatusCode::kUnimplemented);

  Future<void> busy = counter.Call<&Counter::Wait>();
  PauseFor(absl::Milliseconds(50));  // The handler runs; the mailbox is empty.
  Future<int64_t> late = counter.WithTimeout(absl::ZeroDuration()).Call<&Counter::Add>(1);
  absl::Status full = counter.Call<&Counter::Add>(1).Get().status();
  CHECK(CallErrorKindOf(full) == v1::CallError::CALL_OVERLOADED);
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK(fixture.cell->Stop("enough", MonotonicNow() + absl::Seconds(10)));
  CHECK(busy.Get().ok());
  CHECK(CallErrorKindOf(late.Get().status()) == v1::CallError::CALL_UNAVAILABLE);  // It was answered by the stop.
  CHECK(Counter::stop_reason == "enough");
  CHECK(CallErrorKindOf(counter.Call<&Counter::Add>(1).Get().status()) == v1::CallError::CALL_UNAVAILABLE);
}

TEST_CASE("Actor: a call that waited past its deadline is not run", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]").value();
  absl::Status late = counter.WithTimeout(absl::ZeroDuration()).Call<&Counter::Add>(1).Get().status();
  CHECK(CallErrorKindOf(late) == v1::CallError::CALL_DEADLINE);
  CHECK(counter.Call<&Counter::Add>(0).Get().value() == 10);
}

TEST_CASE("Actor: a stop whose handler does not end reports that at its deadline", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Counter> counter = fixture.Spawn<Counter>("Counter", "[10]").value();
  Future<void> busy = counter.Call<&Counter::Block>();
  while (!Counter::blocked) PauseFor(absl::Milliseconds(1));
  CHECK_FALSE(fixture.cell->Stop("now", MonotonicNow() + absl::Milliseconds(10)));
  Counter::blocked = false;
  CHECK(fixture.cell->Stop("now", MonotonicNow() + absl::Seconds(10)));
  CHECK(busy.Get().ok());
}

TEST_CASE("Registry: constructors take a job file's arguments; wrong ones and failures are told", "[actor]") {
  Fixture fixture(GENERATE(false, true));
  Ref<Greeter> greeter = fixture.Spawn<Greeter>("Greeter", R"(["x", {"a": 2.5}])").value();
  CHECK(greeter.Call<&Greeter::Text>().Get().value() == "x2.500000");
  ActorRegistry& registry = ActorRegistry::Global();
  auto error = [&](const char* name, const char* args) {
    return std::string(registry.ConstructFromJson(name, args).status().message());
  };
  CHECK(error("Counter", "[]").find("expected 1 values, found 0") != std::string::npos);
  CHECK(error("Counter", "[\"x\"]").find("expected an integer, found bytes") != std::string::npos);
  CHECK(error("Counter", "[1.5]").find("expected an integer") != std::string::npos);
  CHECK(error("Counter", "[-1]").find("threw: negative") != std::string::npos);
  CHECK(error("Counter", "{").find("JSON array") != std::string::npos);
  CHECK(error("Count", "").find("it has: Counter, Greeter") != std::string::npos);
  Fixture failing;
  CHECK(failing.Spawn<Counter>("Counter", "[13]").status() == absl::FailedPreconditionError("unlucky"));
}

}  // namespace
}  // namespace troupe
