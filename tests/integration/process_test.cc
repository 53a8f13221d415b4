// SPDX-License-Identifier: Apache-2.0
// Actors in processes of their own, spawned by a program that embeds a head and a node.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/troupe.h"
#include "tests/integration/process_actor.h"

namespace troupe_test {
TROUPE_ACTOR_REGISTER(Worker, TROUPE_INIT(int64_t));
}

namespace troupe {
namespace {

using troupe_test::Worker;

bool IsAlive(int64_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 &&
         ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096).value_or(") Z").find(") Z") == std::string::npos;
}

template <typename Predicate>
bool Eventually(Predicate holds) {
  for (int i = 0; i < 10'000 && !holds(); ++i) PauseFor(absl::Milliseconds(1));
  return holds();
}

std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

Runtime Embedded() {
  return Runtime::Local({.name = "embedded", .keeper_program = Program("tools/keeper/troupe_keeper")}).value();
}
SpawnOptions InProcess(const std::string& name, double cpus = 0.5) {
  return {.name = name, .cpus = cpus, .worker_binary = Program("tests/integration/process_worker")};
}

TEST_CASE("Processes: actors with resources are placed in processes, called both ways, and end with the runtime",
          "[processes]") {
  int64_t first_pid = 0, second_pid = 0;
  {
    Runtime runtime = Embedded();
    Ref<Worker> here = runtime.Spawn<Worker>({.name = "here"}, 1).value();
    CHECK(here.Call<&Worker::Pid>().Get().value() == ::getpid());
    absl::StatusOr<Ref<Worker>> spawned = runtime.Spawn<Worker>(InProcess("first"), 10);
    INFO(spawned.status());
    REQUIRE(spawned.ok());
    Ref<Worker> first = *spawned;
    CHECK(first.Call<&Worker::Add>(5).Get().value() == 15);
    first_pid = first.Call<&Worker::Pid>().Get().value();
    CHECK(first_pid != ::getpid());
    CHECK(first.Call<&Worker::AskThroughRef>(here).Get().value() == ::getpid());
    CHECK(here.Call<&Worker::AskThroughRef>(first).Get().value() == first_pid);
    StreamReader<int64_t> numbers = first.Stream<&Worker::Count>(500);
    for (int64_t i = 0; i < 500; ++i) REQUIRE(numbers.Next().Get().value() == i);
    CHECK(numbers.Next().Get().value() == std::nullopt);
    Ref<Worker> child = first.Call<&Worker::SpawnChild>().Get().value();
    CHECK(child.Call<&Worker::Add>(1).Get().value() == 101);
    CHECK(child.Call<&Worker::Pid>().Get().value() == first_pid);
    CHECK(runtime.Find<Worker>("first").value() == first);
    CHECK(runtime.List().size() == 2);

    Ref<Worker> second = runtime.Spawn<Worker>(InProcess("second"), 1).value();
    second_pid = second.Call<&Worker::Pid>().Get().value();
    CHECK(runtime.Stop(second, "enough").ok());
    CHECK(Eventually([&] { return !IsAlive(second_pid); }));
    CHECK(CallErrorKindOf(second.Call<&Worker::Pid>().Get().status()) == v1::CallError::CALL_DIED);
  }
  CHECK(Eventually([&] { return !IsAlive(first_pid); }));
}

TEST_CASE("Processes: a constructor that fails, and what can never fit, say why", "[processes]") {
  Runtime runtime = Embedded();
  absl::Status negative = runtime.Spawn<Worker>(InProcess("negative"), -1).status();
  CHECK(std::string(negative.message()).find("negative") != std::string::npos);
  absl::Status large = runtime.Spawn<Worker>(InProcess("large", 100'000), 1).status();
  CHECK(large.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(runtime.Spawn<Worker>(InProcess("negative"), 1).ok());
}

TEST_CASE("Processes: the death of one reaches every waiting caller with its cause, and it is placed again",
          "[processes]") {
  Runtime runtime = Embedded();
  SpawnOptions options = InProcess("worker");
  options.restart.max = 3;
  Ref<Worker> worker = runtime.Spawn<Worker>(options, 1).value();
  int64_t pid = worker.Call<&Worker::Pid>().Get().value();
  std::vector<Future<void>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(worker.Call<&Worker::Hang>());
  Monotonic start = MonotonicNow();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  for (Future<void>& call : waiting) {
    auto kind = CallErrorKindOf(call.Get());
    CHECK((kind == v1::CallError::CALL_DIED || kind == v1::CallError::CALL_UNAVAILABLE));
  }
  CHECK(MonotonicNow() - start < absl::Seconds(2));
  REQUIRE(Eventually([&] {
    absl::StatusOr<Ref<Worker>> latest = runtime.Latest(worker);
    return latest.ok() && !(*latest == worker) && latest->Call<&Worker::Pid>().Get().ok();
  }));
  absl::Status old = worker.Call<&Worker::Pid>().Get().status();
  CHECK(CallErrorKindOf(old) == v1::CallError::CALL_DIED);
  CHECK(CallErrorOf(old).cause().signal() == SIGKILL);
}

}  // namespace
}  // namespace troupe
