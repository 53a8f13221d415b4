// SPDX-License-Identifier: Apache-2.0
// Actors in processes of their own, spawned by a program that embeds a head and a node.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <thread>

#include "runtime/embed/embedded_cluster.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
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
    CHECK(ReadFile("/proc/self/maps", 16 << 20).value().find("troupe-rings") != std::string::npos);
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

TEST_CASE("Processes: a circle of waits through three of them is told, and how they are connected", "[processes]") {
  Runtime runtime = Embedded();
  Ref<Worker> here = runtime.Spawn<Worker>({.name = "here"}, 1).value();
  Ref<Worker> first = runtime.Spawn<Worker>(InProcess("first"), 1).value();
  Ref<Worker> second = runtime.Spawn<Worker>(InProcess("second"), 1).value();
  using Path = std::vector<Ref<Worker>>;
  CHECK(here.Call<&Worker::AskRound>(Path{first, second}).Get().value() == second.Call<&Worker::Pid>().Get().value());
  const Monotonic start = MonotonicNow();
  absl::Status circle = here.Call<&Worker::AskRound>(Path{first, second, here}).Get().status();
  CHECK(MonotonicNow() - start < absl::Seconds(10));
  CHECK(circle.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(circle.message()).find("wait for each other for ever: ") != std::string::npos);
  for (const Ref<Worker>& ref : {here, first, second}) {
    CHECK(std::string(circle.message()).find(ref.life().ToString()) != std::string::npos);
  }
  CHECK(here.Call<&Worker::AskRound>(Path{first, second}).Get().ok());
  std::string connections = first.Call<&Worker::Connections>().Get().value();
  INFO(connections);
  CHECK(connections.find("to " + second.life().ToString() + " by shared-memory rings;") != std::string::npos);
  CHECK(connections.find("from embedded") != std::string::npos);
}

TEST_CASE("Processes: an argument of 256 MiB arrives, and small calls to others do not wait for it", "[processes]") {
  constexpr int64_t kLarge = 256 << 20;
  Runtime runtime = Embedded();
  Ref<Worker> worker = runtime.Spawn<Worker>(InProcess("worker"), 1).value();
  Ref<Worker> child = worker.Call<&Worker::SpawnChild>().Get().value();
  Future<int64_t> length = worker.Call<&Worker::Length>(std::string(kLarge, 'x'));
  int passed = 0;
  for (; !length.Ready(); ++passed) REQUIRE(child.Call<&Worker::Add>(1).Get().ok());
  CHECK(passed >= 5);
  CHECK(length.Get().value() == kLarge);
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

TEST_CASE("Processes: an actor that ends itself ends its process; one that throws lives again as its policy says",
          "[processes]") {
  Runtime runtime = Embedded();
  SpawnOptions options = InProcess("worker");
  options.restart = {.max = 3, .on_exception = true};
  options.mailbox.messages_max = 2;
  options.environment = {{"MODE", "a b=c"}, {"OMP_NUM_THREADS", "7"}};
  Ref<Worker> first = runtime.Spawn<Worker>(options, 1).value();
  CHECK(first.Call<&Worker::Variable>("MODE").Get().value() == "a b=c");
  CHECK(first.Call<&Worker::Variable>("OMP_NUM_THREADS").Get().value() == "7");
  std::vector<Future<void>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(first.Call<&Worker::Sleep>(50));
  int overloaded = 0;
  for (Future<void>& call : calls) overloaded += CallErrorKindOf(call.Get()) == v1::CallError::CALL_OVERLOADED;
  CHECK(overloaded >= 7);

  (void)first.Call<&Worker::Throw>().Get();
  absl::StatusOr<Ref<Worker>> next = first;
  REQUIRE(Eventually([&] {
    next = runtime.Latest(first);
    return next.ok() && !(*next == first) && next->Call<&Worker::Pid>().Get().ok();
  }));
  absl::Status died = first.Call<&Worker::Pid>().Get().status();
  CHECK(CallErrorOf(died).cause().exit_code() == 1);
  CHECK(CallErrorOf(died).cause().text() == "INTERNAL: the method threw: broken inside");

  (void)next->Call<&Worker::StopSelf>().Get();
  REQUIRE(Eventually([&] { return runtime.Latest(first).status().code() == absl::StatusCode::kNotFound; }));
  died = next->Call<&Worker::Pid>().Get().status();
  CHECK(CallErrorKindOf(died) == v1::CallError::CALL_DIED);
  CHECK(CallErrorOf(died).cause().text() == "I am done");
  CHECK(runtime.List().empty());

  // The name is free, and its new owner is no successor.
  Ref<Worker> other = runtime.Spawn<Worker>({.name = "worker"}, 1).value();
  CHECK(runtime.Latest(first).status().code() == absl::StatusCode::kNotFound);
  CHECK(runtime.Spawn<Worker>(options, 1).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(runtime.Stop(other, "enough").ok());
  CHECK(runtime.Spawn<Worker>(options, 1).ok());
  CHECK(runtime.Spawn<Worker>({.name = "worker"}, 1).status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("Processes: a child ends with its parent, also in a later life", "[processes]") {
  Runtime runtime = Embedded();
  Ref<Worker> parent = runtime.Spawn<Worker>({.name = "parent"}, 1).value();
  Ref<Worker> child =
      parent.Call<&Worker::SpawnProcess>("child", Program("tests/integration/process_worker")).Get().value();
  int64_t pid = child.Call<&Worker::Pid>().Get().value();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  absl::StatusOr<Ref<Worker>> next = child;
  REQUIRE(Eventually([&] {
    next = runtime.Latest(child);
    return next.ok() && !(*next == child) && next->Call<&Worker::Pid>().Get().ok();
  }));
  pid = next->Call<&Worker::Pid>().Get().value();
  CHECK(runtime.Stop(parent, "enough").ok());
  CHECK(Eventually([&] { return !IsAlive(pid); }));
  CHECK(Eventually([&] { return runtime.Find<Worker>("child").status().code() == absl::StatusCode::kNotFound; }));
}

TEST_CASE("Processes: a group is placed all or nothing, and ends together", "[processes]") {
  Runtime runtime = Embedded();
  // Each of the two would fit.
  double more_than_half = 0.6 * static_cast<double>(std::thread::hardware_concurrency());
  absl::Status large = runtime.SpawnGroup<Worker>(2, InProcess("large", more_than_half), 1).status();
  CHECK(large.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(runtime.List().empty());
  Group<Worker> group = runtime.SpawnGroup<Worker>(3, InProcess("member", 0.1), 1).value();
  std::vector<int64_t> pids = group.Broadcast<&Worker::Pid>().All().value();
  CHECK(runtime.List().size() == 3);
  CHECK(runtime.Find<Worker>("member.1").value() == group[1]);
  CHECK(runtime.Spawn<Worker>({.name = "member.2"}, 1).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(group[0].Call<&Worker::AskThroughRef>(group[1]).Get().value() == pids[1]);
  (void)group[1].Call<&Worker::Exit>(3).Get();  // Its policy allows no restart.
  CHECK(Eventually([&] { return !IsAlive(pids[0]) && !IsAlive(pids[1]) && !IsAlive(pids[2]); }));
  CHECK(Eventually([&] { return runtime.List().empty(); }));
}

TEST_CASE("Processes: deaths are told between processes, of jobs of their own, with their cause", "[processes]") {
  Runtime runtime = Embedded();
  Ref<Worker> watcher = runtime.Spawn<Worker>(InProcess("watcher", 0.1), 1).value();
  SpawnOptions options = InProcess("watched", 0.1);
  options.restart = {.max = 1, .on_exception = true};
  Ref<Worker> watched = runtime.Spawn<Worker>(options, 1).value();
  Ref<Worker> linked = runtime.Spawn<Worker>(InProcess("linked", 0.1), 1).value();
  REQUIRE(watcher.Call<&Worker::Monitor>(watched).Get().ok());
  REQUIRE(watcher.Call<&Worker::Monitor>(linked).Get().ok());
  REQUIRE(linked.Call<&Worker::Link>(watched).Get().ok());
  CHECK(watcher.Call<&Worker::AskThroughRef>(watched).Get().ok());
  (void)watched.Call<&Worker::Throw>().Get();
  std::string seen;
  CHECK(Eventually([&] {
    seen = watcher.Call<&Worker::Seen>().Get().value();
    return seen.find("watched: INTERNAL: the method threw: broken inside;") != std::string::npos &&
           seen.find("linked: linked to " + watched.life().ToString() + ", which ended: INTERNAL") != std::string::npos;
  }));
  INFO(seen);
  absl::Status died = watcher.Call<&Worker::AskThroughRef>(watched).Get().status();
  // The watcher lives: what it returned is its handler's error.
  CHECK(CallErrorKindOf(died) == v1::CallError::CALL_HANDLER);
  CHECK(died.message() == watched.life().ToString() + " died: INTERNAL: the method threw: broken inside");
}

TEST_CASE("Connect: actors of a cluster's head are spawned, called, watched, restarted and stopped", "[processes]") {
  std::string folder = MakeTemporaryDirectory("connect-test-").value();
  RpcSecurity security;
  security.token = Token::Generate();
  // A head and a node, as a program that embeds them has; this one only knows their address.
  auto cluster = RegisteredEmbeddedCluster()({folder, security, Program("tools/keeper/troupe_keeper")}).value();
  {
    Runtime runtime = Runtime::Connect(cluster->head_target(), security, {.name = "program"}).value();
    SpawnOptions options = InProcess("worker");
    options.restart.max = 1;
    Ref<Worker> here = runtime.Spawn<Worker>({.name = "here"}, 1).value();
    Ref<Worker> worker = runtime.Spawn<Worker>(options, 10).value();
    CHECK(worker.Call<&Worker::Add>(5).Get().value() == 15);
    CHECK(worker.Call<&Worker::AskThroughRef>(here).Get().value() == ::getpid());
    REQUIRE(here.Call<&Worker::Monitor>(worker).Get().ok());
    ::kill(static_cast<pid_t>(worker.Call<&Worker::Pid>().Get().value()), SIGKILL);
    absl::StatusOr<Ref<Worker>> next = worker;
    REQUIRE(Eventually([&] {
      next = runtime.Latest(worker);
      return next.ok() && !(*next == worker) && next->Call<&Worker::Add>(1).Get().ok();
    }));
    CHECK(runtime.List().back().restarts == 1);
    std::string seen;
    CHECK(Eventually([&] {
      seen = here.Call<&Worker::Seen>().Get().value();
      return seen.find("worker: SIGKILL, not sent by Troupe") == 0;
    }));
    int64_t pid = next->Call<&Worker::Pid>().Get().value();
    CHECK(runtime.Stop(*next, "enough").ok());
    CHECK(Eventually([&] { return !IsAlive(pid); }));
    CHECK(runtime.Find<Worker>("worker").status().code() == absl::StatusCode::kNotFound);
  }
  RpcSecurity stranger;
  stranger.token = Token::Generate();
  absl::Status refused = Runtime::Connect(cluster->head_target(), stranger).status();
  CHECK(refused.code() == absl::StatusCode::kUnauthenticated);
  CHECK(std::string(refused.message()).find("the head at " + cluster->head_target()) == 0);

  std::string target = cluster->head_target();
  cluster = nullptr;
  Monotonic begun = MonotonicNow();
  absl::Status away = Runtime::Connect(target, security).status();
  CHECK(away.code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(away.message()).find("the head at " + target) == 0);
  CHECK(MonotonicNow() - begun < absl::Seconds(15));
  CHECK(RemoveTree(folder).ok());
}

TEST_CASE("Objects: one made in a process is read in others without a copy, and outlives its maker with who holds it",
          "[processes]") {
  std::optional<Tensor> outlives;
  constexpr int64_t kElements = 1 << 20, kSum = kElements * (kElements - 1) / 2;
  {
    Runtime runtime = Embedded();
    Ref<Worker> maker = runtime.Spawn<Worker>(InProcess("maker", 0.2), 1).value();
    Ref<Worker> reader = runtime.Spawn<Worker>(InProcess("reader", 0.2), 1).value();
    Ref<Worker> here = runtime.Spawn<Worker>({.name = "here"}, 1).value();
    ObjectRef<Tensor> ref = maker.Call<&Worker::MakeTensor>(kElements).Get().value();
    Tensor tensor = runtime.Get(ref).value();
    CHECK(tensor.shape() == std::vector<int64_t>{kElements});
    CHECK(tensor.values<int64_t>().back() == kElements - 1);
    CHECK(reader.Call<&Worker::SumOf>(ref).Get().value() == kSum);
    CHECK(reader.Call<&Worker::SumOfTensor>(tensor).Get().value() == kSum);
    CHECK(here.Call<&Worker::SumOf>(ref).Get().value() == kSum);
    // From this process, small and large.
    for (size_t n : {10, 100'000}) {
      std::vector<int64_t> ones(n, 1);
      ObjectRef<Tensor> mine =
          runtime.Put(TensorSpan(std::span<const int64_t>(ones), {static_cast<int64_t>(n / 2), 2})).value();
      CHECK(reader.Call<&Worker::SumOf>(mine).Get().value() == static_cast<int64_t>(n));
    }
    // Its maker is killed: who holds it has it, and can still hand it on; what nobody else held is lost.
    ObjectRef<Tensor> lost = maker.Call<&Worker::MakeAndKeep>(kElements * 3).Get().value();
    REQUIRE(reader.Call<&Worker::Keep>(std::vector{ref}).Get().ok());
    int64_t pid = maker.Call<&Worker::Pid>().Get().value();
    ObjectId lost_id = lost.id();
    ref = ObjectRef<Tensor>();
    tensor = Tensor();
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    CHECK(Eventually([&] { return !IsAlive(pid); }));
    CHECK(Eventually([&] { return !runtime.Find<Worker>("maker").ok(); }));
    CHECK(lost.id() == lost_id);
    CHECK(runtime.Get(lost).ok());  // Held here, before its maker died.
    ObjectRef<Tensor> kept = reader.Call<&Worker::Kept>(0).Get().value();
    outlives = runtime.Get(kept).value();
  }
  CHECK(outlives->values<int64_t>()[12345] == 12345);
}

TEST_CASE("Objects: a lost one names its owner and why that ended", "[processes]") {
  Runtime runtime = Embedded();
  Ref<Worker> maker = runtime.Spawn<Worker>(InProcess("maker", 0.2), 1).value();
  ObjectRef<Tensor> ref = maker.Call<&Worker::MakeTensor>(1 << 20).Get().value();
  ObjectWire wire = ref.handle()->store().Describe(ref.handle(), 0, true);
  std::string owner(wire.owner);
  wire.owner = owner;
  wire.node_id = {};
  int64_t pid = maker.Call<&Worker::Pid>().Get().value();
  Objects objects = runtime.objects();
  ref = ObjectRef<Tensor>();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  CHECK(Eventually([&] { return !runtime.Find<Worker>("maker").ok(); }));
  absl::Status lost;
  CHECK(Eventually([&] {
    lost = runtime.Get(ObjectRef<Tensor>(objects.store()->Adopt(wire))).status();
    return std::string(lost.message()).find("SIGKILL") != std::string::npos;
  }));
  INFO(lost);
  CHECK(lost.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(lost.message()).find("its owner " + owner + " has ended") != std::string::npos);
}

}  // namespace
}  // namespace troupe
