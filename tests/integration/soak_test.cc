// SPDX-License-Identifier: Apache-2.0
// Two processes create and end many actors that call each other: what they use is at the end what it was. TROUPE_SOAK
// gives how many actors in all; each is called 100 times.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/troupe.h"

namespace troupe_test {

using troupe::Future;
using troupe::Ref;

// What a process has of the system.
struct Use {
  int64_t resident_bytes = 0, descriptors = 0, mapped_files = 0, threads = 0;
};
TROUPE_STRUCT(Use, resident_bytes, descriptors, mapped_files, threads);

int64_t Entries(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

Use OwnUse() {
  Use use;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  use.resident_bytes = pages * ::sysconf(_SC_PAGESIZE);
  use.descriptors = Entries("/proc/self/fd");
  use.threads = Entries("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    use.mapped_files += line.find("memfd:") != std::string::npos || line.find("/dev/shm") != std::string::npos;
  }
  return use;
}

class Echo : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  int64_t Next(int64_t n) { return n + 1; }
  void End() { context_->StopSelf("enough"); }

 private:
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Echo, TROUPE_METHODS(Next, End), TROUPE_INIT());

// Calls each of `echoes` `calls` times, a thousand at a time; the answers are summed.
absl::StatusOr<int64_t> CallAll(const std::vector<Ref<Echo>>& echoes, int64_t calls) {
  int64_t sum = 0;
  std::vector<Future<int64_t>> answers;
  auto take = [&]() -> absl::Status {
    for (Future<int64_t>& answer : answers) {
      absl::StatusOr<int64_t> got = answer.Get();
      if (!got.ok()) return got.status();
      sum += *got;
    }
    answers.clear();
    return absl::OkStatus();
  };
  for (int64_t i = 0; i < calls; ++i) {
    for (const Ref<Echo>& echo : echoes) {
      answers.push_back(echo.Call<&Echo::Next>(i));
      if (answers.size() < 1000) continue;
      if (absl::Status taken = take(); !taken.ok()) return taken;
    }
  }
  if (absl::Status taken = take(); !taken.ok()) return taken;
  return sum;
}

// In the other process.
class Nest : public troupe::Actor {
 public:
  absl::Status OnStart(troupe::ActorContext& context) override {
    context_ = &context;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Ref<Echo>>> Spawn(int64_t count) {
    std::vector<Ref<Echo>> echoes;
    for (int64_t i = 0; i < count; ++i) {
      absl::StatusOr<Ref<Echo>> echo = context_->Spawn<Echo>({});
      if (!echo.ok()) return echo.status();
      echoes.push_back(*std::move(echo));
    }
    return echoes;
  }
  absl::StatusOr<int64_t> CallEach(const std::vector<Ref<Echo>>& echoes, int64_t calls) {
    return CallAll(echoes, calls);
  }
  Use Used() { return OwnUse(); }

 private:
  troupe::ActorContext* context_ = nullptr;
};
TROUPE_ACTOR(Nest, TROUPE_METHODS(Spawn, CallEach, Used), TROUPE_INIT());

}  // namespace troupe_test

namespace troupe {
namespace {

using troupe_test::CallAll;
using troupe_test::Echo;
using troupe_test::Nest;
using troupe_test::OwnUse;
using troupe_test::Use;

constexpr int64_t kCallsEach = 100;
constexpr int64_t kEachRound = 500;  // Actors of each process.
constexpr int64_t kWarmRounds = 10;  // What is remembered of ended actors is bounded, and full then.

void CheckSame(const Use& before, const Use& after) {
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.mapped_files <= before.mapped_files);
  CHECK(after.threads <= before.threads + 2);  // Some come and go with the load.
  // What an allocator keeps varies; a lost 100 bytes of each of 100,000 actors, or 1 of each call, would be more.
  CHECK(after.resident_bytes <= before.resident_bytes + (4 << 20));
}

TEST_CASE("Soak: actors that come, call and go leave nothing in either of two processes", "[soak]") {
  // The first: the other process is this program too, and becomes a worker here.
  Runtime runtime = Runtime::Local({.name = "soak",
                                    .keeper_program = std::filesystem::absolute("tools/keeper/troupe_keeper").string()})
                        .value();
  std::string asked = EnvironmentVariable("TROUPE_SOAK");
  int64_t rounds = (asked.empty() ? 16'000 : std::stoll(asked)) / (2 * kEachRound);
  REQUIRE(rounds > kWarmRounds);
  Ref<Nest> nest = runtime.Spawn<Nest>({.name = "nest", .cpus = 0.1}).value();
  const int64_t expected = kEachRound * kCallsEach * (kCallsEach + 1) / 2;
  Use here, there;
  for (int64_t round = 0; round < rounds; ++round) {
    if (round == kWarmRounds) {
      here = OwnUse();
      there = nest.Call<&Nest::Used>().Get().value();
    }
    std::vector<Ref<Echo>> others = nest.Call<&Nest::Spawn>(kEachRound).Get().value();
    std::vector<Ref<Echo>> own;
    for (int64_t i = 0; i < kEachRound; ++i) own.push_back(runtime.Spawn<Echo>({}).value());
    Future<int64_t> from_there = nest.Call<&Nest::CallEach>(own, kCallsEach);
    CHECK(CallAll(others, kCallsEach).value() == expected);
    CHECK(from_there.Get().value() == expected);
    for (const Ref<Echo>& echo : others) CHECK(echo.Send<&Echo::End>().ok());
    for (const Ref<Echo>& echo : own) CHECK(runtime.Stop(echo, "enough").ok());
  }
  Use here_after = OwnUse(), there_after;
  // The last of the other process are still ending.
  for (int i = 0; i < 200; ++i) {
    there_after = nest.Call<&Nest::Used>().Get().value();
    if (there_after.threads <= there.threads) break;
    PauseFor(absl::Milliseconds(10));
  }
  for (auto [name, before, after] : {std::tuple{"here", here, here_after}, {"there", there, there_after}}) {
    std::cout << name << ": resident " << before.resident_bytes / 1024 << " -> " << after.resident_bytes / 1024
              << " KiB, descriptors " << before.descriptors << " -> " << after.descriptors << ", mapped files "
              << before.mapped_files << " -> " << after.mapped_files << ", threads " << before.threads << " -> "
              << after.threads << std::endl;
    INFO(name);
    CheckSame(before, after);
  }
  CHECK(runtime.List().size() == 1);
}

}  // namespace
}  // namespace troupe
