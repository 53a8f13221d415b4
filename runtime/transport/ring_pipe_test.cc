// SPDX-License-Identifier: Apache-2.0
// Records over rings, between threads and between processes: order, bounds, who reads, the end.
#include "runtime/transport/ring_pipe.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/transport/testing/ring_pair.h"

namespace troupe {
namespace {

constexpr auto kNothing = [](std::string_view) { return absl::OkStatus(); };
// Of what must not come, so that Run ends if it does.
constexpr auto kNever = [](std::string_view) { return absl::CancelledError("it was taken"); };

auto Record(std::string_view bytes) {
  return [bytes](std::string& out) {
    uint32_t length = static_cast<uint32_t>(bytes.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out.append(bytes);
  };
}

std::string Numbered(uint64_t number, size_t bytes = 8) {
  std::string record(bytes, 'x');
  std::memcpy(record.data(), &number, sizeof(number));
  return record;
}
uint64_t NumberOf(std::string_view record) {
  uint64_t number = 0;
  std::memcpy(&number, record.data(), sizeof(number));
  return number;
}

// A process that answers each record with the same; ends when told so.
struct Echo {
  explicit Echo(std::unique_ptr<RingEnd> end, RingPipeOptions options = {})
      : pipe(std::move(end), options, [this](std::string_view record) {
          if (record == "end") return absl::CancelledError("told so");
          return pipe.Send(true, Record(record));
        }) {}
  RingPipe pipe;
};

struct Asker {
  explicit Asker(std::unique_ptr<RingEnd> end)
      : pipe(std::move(end), {}, [this](std::string_view record) {
          done[NumberOf(record) % done.size()] = NumberOf(record) + 1;
          return absl::OkStatus();
        }) {}
  // Asks and reads itself, or waits for the one that reads.
  void Ask(uint64_t number) {
    const Monotonic limit = MonotonicNow() + absl::Seconds(20);
    auto answered = [&] { return done[number % done.size()] == number + 1; };
    REQUIRE(pipe.Send(false, Record(Numbered(number))).ok());
    while (!answered() && MonotonicNow() < limit) {
      if (!pipe.ReadUntil(answered, limit)) std::this_thread::yield();
    }
    REQUIRE(answered());
  }
  std::array<std::atomic<uint64_t>, 64> done{};
  RingPipe pipe;
};

TEST_CASE("RingPipe: a thread that waits reads itself, and the reader takes what nobody waits for", "[ring]") {
  testing::RingPair pair;
  Echo echo(std::move(pair.b));
  absl::Status ended;
  std::thread echoes([&] { ended = echo.pipe.Run(); });
  Asker asker(std::move(pair.a));
  std::thread reader([&] { (void)asker.pipe.Run(); });
  for (uint64_t i = 0; i < 5000; ++i) {
    asker.Ask(2 * i);
    if (i % 50 != 0) continue;
    REQUIRE(asker.pipe.Send(false, Record(Numbered(2 * i + 1))).ok());  // Nobody waits for this one.
    const Monotonic limit = MonotonicNow() + absl::Seconds(20);
    auto& done = asker.done[(2 * i + 1) % asker.done.size()];
    while (done != 2 * i + 2 && MonotonicNow() < limit) std::this_thread::yield();
    REQUIRE(done == 2 * i + 2);
  }
  REQUIRE(asker.pipe.Send(true, Record("end")).ok());
  echoes.join();
  CHECK(ended == absl::CancelledError("told so"));
  asker.pipe.End(absl::UnavailableError("enough"), true);
  reader.join();
}

TEST_CASE("RingPipe: several threads ask over one pipe, and each gets its answer", "[ring]") {
  testing::RingPair pair;
  Echo echo(std::move(pair.b));
  std::thread echoes([&] { (void)echo.pipe.Run(); });
  Asker asker(std::move(pair.a));
  std::thread reader([&] { (void)asker.pipe.Run(); });
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 1000; ++i) {
        const uint64_t number = 4 * i + t;  // A slot of done for each.
        auto answered = [&] { return asker.done[number % 64] == number + 1; };
        good = good && asker.pipe.Send(false, Record(Numbered(number))).ok();
        const Monotonic limit = MonotonicNow() + absl::Seconds(20);
        while (!answered() && MonotonicNow() < limit) {
          if (!asker.pipe.ReadUntil(answered, MonotonicNow() + absl::Milliseconds(5))) std::this_thread::yield();
        }
        good = good && answered();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good);
  for (RingPipe* pipe : {&echo.pipe, &asker.pipe}) pipe->End(absl::UnavailableError("enough"), true);
  echoes.join();
  reader.join();
}

TEST_CASE("RingPipe: records of every size cross between two processes, in order", "[ring]") {
  testing::RingPair pair;
  pid_t child = ::fork();
  if (child == 0) {
    Echo echo(std::move(pair.b), {.pauses = true});
    ::_exit(echo.pipe.Run() == absl::CancelledError("told so") ? 0 : 1);
  }
  pair.b = nullptr;
  uint64_t next = 0;
  bool good = true;
  RingPipe pipe(std::move(pair.a), {}, [&](std::string_view record) {
    good = good && NumberOf(record) == next && record.size() == 8 + next * 37 % 40'000;
    ++next;
    return absl::OkStatus();
  });
  std::thread sender([&] {
    for (uint64_t i = 0; i < 2000; ++i) {
      std::string record = Numbered(i, 8 + i * 37 % 40'000);
      while (!pipe.Send(false, Record(record)).ok()) std::this_thread::yield();
    }
  });
  CHECK(pipe.ReadUntil([&] { return next == 2000; }, MonotonicNow() + absl::Seconds(40)));
  sender.join();
  CHECK(next == 2000);
  CHECK(good);
  REQUIRE(pipe.Send(true, Record("end")).ok());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("RingPipe: when the other side does not read, the queue fills to its limit and then refuses", "[ring]") {
  for (RingPipeOptions options : {RingPipeOptions{.queue_records_max = 10}, RingPipeOptions{.queue_bytes_max = 9500}}) {
    testing::RingPair pair;
    RingPipe pipe(std::move(pair.a), options, kNothing);
    const std::string record(1000, 'x');
    int sent = 0;
    while (pipe.Send(false, Record(record)).ok()) ++sent;
    CHECK(sent == 15 + 10);  // In a ring of 16 KiB, and in the queue.
    CHECK(absl::IsResourceExhausted(pipe.Send(false, Record(record))));
    CHECK(pipe.Send(true, Record(record)).ok());
    RingPipe other(std::move(pair.b), {}, [&](std::string_view) {
      --sent;
      return absl::OkStatus();
    });
    std::thread reader([&] { (void)pipe.Run(); });
    CHECK(other.ReadUntil([&] { return sent == -1; }, MonotonicNow() + absl::Seconds(20)));
    CHECK(pipe.Send(false, Record(record)).ok());
    pipe.End(absl::UnavailableError("enough"), true);
    reader.join();
    CHECK(absl::IsUnavailable(pipe.Send(true, Record(record))));
  }
}

TEST_CASE("RingPipe: a side that answers reads no further while its answers are not read", "[ring]") {
  testing::RingPair pair;
  Echo echo(std::move(pair.b), {.queue_records_max = 4, .pauses = true});
  std::thread echoes([&] { (void)echo.pipe.Run(); });
  uint64_t answers = 0;
  RingPipe asker(std::move(pair.a), {.queue_records_max = 1}, [&](std::string_view) {
    ++answers;
    return absl::OkStatus();
  });
  uint64_t asked = 0;
  const std::string record(1000, 'x');
  for (Monotonic end = MonotonicNow() + absl::Milliseconds(100); MonotonicNow() < end;) {
    asked += asker.Send(false, Record(record)).ok() ? 1 : 0;
  }
  CHECK(asked < 60);  // Two rings of 15, and a batch of one ring in the queue.
  CHECK(asker.ReadUntil([&] { return answers == asked; }, MonotonicNow() + absl::Seconds(20)));
  echo.pipe.End(absl::UnavailableError("enough"), false);
  echoes.join();
}

TEST_CASE("RingPipe: what came before the end is taken, and a message that cannot be ends it", "[ring]") {
  testing::RingPair pair;
  uint64_t taken = 0;
  RingPipe pipe(std::move(pair.b), {.record_bytes_max = 100}, [&](std::string_view) {
    ++taken;
    return absl::OkStatus();
  });
  RingPipe other(std::move(pair.a), {}, kNothing);
  REQUIRE(other.Send(false, Record("before")).ok());
  pipe.End(absl::UnavailableError("it has died"), true);
  CHECK(pipe.Run() == absl::UnavailableError("it has died"));
  CHECK(taken == 1);

  testing::RingPair second;
  RingPipe strict(std::move(second.b), {.record_bytes_max = 100}, kNever);
  RingPipe wild(std::move(second.a), {}, kNothing);
  REQUIRE(wild.Send(false, Record(std::string(101, 'x'))).ok());
  CHECK(strict.Run().code() == absl::StatusCode::kInvalidArgument);

  testing::RingPair third;
  RingPipe careful(std::move(third.b), {}, kNever);
  RingPipe broken(std::move(third.a), {}, kNothing);
  REQUIRE(broken.Send(false, Record("flipped")).ok());
  third.raw[4096 + kRingFrameHeaderBytes + 6] ^= 1;
  CHECK(careful.Run().code() == absl::StatusCode::kDataLoss);
  CHECK(careful.refusals().flipped == 1);
}

// The processors that a thread of this process may use.
cpu_set_t AllowedTo(pid_t thread) {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(thread, sizeof(set), &set) == 0);
  return set;
}

TEST_CASE("RingPipe: who answers in turn sleeps where its caller does, and runs on all processors", "[ring]") {
  const cpu_set_t all = AllowedTo(0);
  if (CPU_COUNT(&all) < 2) return;  // They sleep together anyway.
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  testing::RingPair pair;
  RingEnd& caller = *pair.a;
  std::atomic<pid_t> thread{0};
  std::atomic<int> taken{0};
  std::atomic<bool> all_allowed{true};
  RingPipe pipe(std::move(pair.b), {}, [&](std::string_view) {
    cpu_set_t now;
    all_allowed = all_allowed && ::sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &all);
    ++taken;
    return absl::OkStatus();
  });
  caller.TellCpu(cpu);
  std::thread answers([&] {
    thread = ::gettid();
    pipe.ReadUntil([&] { return taken == 2; }, MonotonicNow() + absl::Seconds(20), RingPipe::Turn::kAnswers);
  });
  auto sleeps_alone = [&] {
    const Monotonic limit = MonotonicNow() + absl::Seconds(20);
    while (MonotonicNow() < limit) {
      if (thread == 0) continue;
      cpu_set_t now = AllowedTo(thread);
      if (CPU_COUNT(&now) == 1 && CPU_ISSET(cpu, &now)) return true;
      std::this_thread::yield();
    }
    return false;
  };
  std::string record;
  Record("x")(record);
  for (int i = 0; i < 2; ++i) {
    CHECK(sleeps_alone());
    REQUIRE(caller.Write(record).value());
    caller.WakePeer();
    for (const Monotonic limit = MonotonicNow() + absl::Seconds(20); taken <= i && MonotonicNow() < limit;) {
      std::this_thread::yield();
    }
  }
  answers.join();
  CHECK(taken == 2);
  CHECK(all_allowed);
}

}  // namespace
}  // namespace troupe
