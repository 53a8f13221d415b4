// SPDX-License-Identifier: Apache-2.0
// Rings between two threads and between two processes, and what a process that writes wrongly can do to the other.
#include "runtime/transport/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "runtime/env/clock.h"
#include "runtime/transport/testing/ring_pair.h"

namespace troupe {
namespace {

constexpr uint64_t kEpoch = testing::RingPair::kEpoch;
constexpr size_t kBytes = kRingBytesMin;
// Where the fields of the shared memory stand (RingEnd::Layout): for tests that damage it.
constexpr size_t kSideBytes = 192, kSides = 64, kRings = 4096;

using Pair = testing::RingPair;

std::vector<std::string> ReadAll(RingEnd& end) {
  std::vector<std::string> frames;
  absl::Status status = end.Read([&](std::string_view bytes) {
    frames.emplace_back(bytes);
    return absl::OkStatus();
  });
  REQUIRE(status.ok());
  return frames;
}

absl::Status ReadStatus(RingEnd& end) {
  return end.Read([](std::string_view) { return absl::OkStatus(); });
}

TEST_CASE("Ring: frames arrive whole and in order, around the end of the ring", "[ring]") {
  Pair pair;
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> sent;
    for (size_t i = 0; i < 1 + random() % 4; ++i) {
      sent.emplace_back(1 + random() % 900, static_cast<char>('a' + random() % 26));
      REQUIRE(pair.a->Write(sent.back()).value());
    }
    CHECK(pair.b->Readable());
    REQUIRE(ReadAll(*pair.b) == sent);
    CHECK_FALSE(pair.b->Readable());
    REQUIRE(pair.b->Write("back").value());
    REQUIRE(ReadAll(*pair.a) == std::vector<std::string>{"back"});
  }
}

TEST_CASE("Ring: a full one refuses, and tells its writer when there is space", "[ring]") {
  Pair pair;
  const std::string frame(pair.a->frame_bytes_max(), 'x');
  int written = 0;
  while (pair.a->Write(frame).value()) ++written;
  CHECK(written == 3);  // And their heads.
  CHECK(pair.a->LeaveTo(RingEnd::kReader));
  CHECK(ReadAll(*pair.b).size() == 3);
  CHECK_FALSE(pair.a->LeaveTo(RingEnd::kReader));  // There is something to do: space came.
  CHECK(pair.a->Write(frame).value());
  CHECK(pair.a->LeaveTo(RingEnd::kReader));
}

// Echoes until an empty-handed "end".
void Echo(RingEnd& end) {
  for (bool done = false; !done;) {
    end.Sleep(RingEnd::kReader, MonotonicNow() + absl::Seconds(10));
    absl::Status status = end.Read([&](std::string_view bytes) {
      done = bytes == "end";
      while (!end.Write(bytes).value()) std::this_thread::yield();
      return absl::OkStatus();
    });
    if (!status.ok()) return;
    end.WakePeer();
  }
}

void PingPong(RingEnd& end, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const std::string sent = i + 1 == rounds ? "end" : std::string(1 + i % 100, static_cast<char>('a' + i % 26));
    REQUIRE(end.Write(sent).value());
    end.WakePeer();
    std::vector<std::string> got;
    const Monotonic limit = MonotonicNow() + absl::Seconds(20);
    while (got.empty() && MonotonicNow() < limit) {
      end.Sleep(RingEnd::kReader, limit);
      got = ReadAll(end);
    }
    REQUIRE(got == std::vector<std::string>{sent});
  }
}

TEST_CASE("Ring: two threads that sleep for each other miss no wake", "[ring]") {
  Pair pair;
  std::thread other([&] { Echo(*pair.b); });
  PingPong(*pair.a, 20'000);
  other.join();
}

TEST_CASE("Ring: two processes that sleep for each other miss no wake", "[ring]") {
  Pair pair;
  pid_t child = ::fork();
  if (child == 0) {
    Echo(*pair.b);
    ::_exit(0);
  }
  PingPong(*pair.a, 20'000);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("Ring: a stream of frames through a small ring is whole, whatever the threads' pace", "[ring]") {
  Pair pair;
  constexpr uint32_t kFrames = 100'000;
  std::thread writer([&] {
    for (uint32_t i = 0; i < kFrames; ++i) {
      std::string frame(4 + i % 300, 'x');
      std::memcpy(frame.data(), &i, sizeof(i));
      while (!pair.a->Write(frame).value()) {
        pair.a->WakePeer();
        pair.a->Sleep(RingEnd::kReader, MonotonicNow() + absl::Seconds(10));
      }
      if (i % 7 == 0) pair.a->WakePeer();
    }
    pair.a->WakePeer();
  });
  uint32_t next = 0;
  bool good = true;
  const Monotonic limit = MonotonicNow() + absl::Seconds(40);
  while (next < kFrames && good && MonotonicNow() < limit) {
    pair.b->Sleep(RingEnd::kReader, limit);
    absl::Status status = pair.b->Read([&](std::string_view bytes) {
      uint32_t number = 0;
      std::memcpy(&number, bytes.data(), sizeof(number));
      good = good && number == next && bytes.size() == 4 + next % 300;
      ++next;
      return absl::OkStatus();
    });
    good = good && status.ok();
    pair.b->WakePeer();
  }
  CHECK(good);
  CHECK(next == kFrames);
  writer.join();
}

TEST_CASE("Ring: a sleeper is woken by its own process, or by its deadline", "[ring]") {
  Pair pair;
  const Monotonic start = MonotonicNow();
  pair.a->Sleep(RingEnd::kReader, start + absl::Milliseconds(20));
  CHECK(MonotonicNow() - start >= absl::Milliseconds(20));
  std::thread sleeper([&] { pair.a->Sleep(RingEnd::kCaller, start + absl::Seconds(60)); });
  PauseFor(absl::Milliseconds(20));
  pair.a->WakeOwn(RingEnd::kCaller);
  sleeper.join();
  CHECK(MonotonicNow() - start < absl::Seconds(9));
}

TEST_CASE("Ring: a frame that is cut, flipped, replayed or of another epoch is refused and counted", "[ring]") {
  auto damaged = [](const std::function<void(char*)>& damage) {
    auto pair = std::make_unique<Pair>();
    REQUIRE(pair->a->Write("0123456789").value());
    damage(pair->raw + kRings);
    CHECK(ReadStatus(*pair->b).code() == absl::StatusCode::kDataLoss);
    CHECK(pair->b->refusals().total() == 1);
    return pair->b->refusals();
  };
  CHECK(damaged([](char* frame) { frame[kRingFrameHeaderBytes + 3] ^= 1; }).flipped == 1);
  CHECK(damaged([](char* frame) { frame[0] = 100; }).cut == 1);      // More than is there.
  CHECK(damaged([](char* frame) { frame[0] = 0; }).cut == 1);        // Nothing.
  CHECK(damaged([](char* frame) { frame[3] = '\x7f'; }).cut == 1);   // More than may be.
  CHECK(damaged([](char* frame) { frame[16] ^= 1; }).flipped == 1);  // The epoch, and no checksum for it.
  Pair pair;
  REQUIRE(pair.a->Write("first").value());
  std::string old(pair.raw + kRings, kRingFrameHeaderBytes + 8);
  REQUIRE(ReadAll(*pair.b).size() == 1);
  REQUIRE(pair.a->Write("later").value());
  std::memcpy(pair.raw + kRings + old.size(), old.data(), old.size());
  CHECK(ReadStatus(*pair.b).code() == absl::StatusCode::kDataLoss);
  CHECK(pair.b->refusals().replayed == 1);

  SharedMemory memory = SharedMemory::Create("ring-test", RingEnd::MemoryBytes(kBytes)).value();
  char* raw = reinterpret_cast<char*>(memory.data());
  auto other = RingEnd::Create(std::move(memory), kBytes, kEpoch + 1);
  REQUIRE(other->Write("older").value());
  Pair target;
  REQUIRE(target.a->Write("newer").value());
  std::memcpy(target.raw + kRings, raw + kRings, kRingFrameHeaderBytes + 8);
  CHECK(ReadStatus(*target.b).code() == absl::StatusCode::kDataLoss);
  CHECK(target.b->refusals().stale == 1);
}

TEST_CASE("Ring: counters that cannot be are refused by reader and writer", "[ring]") {
  for (uint64_t lie : {uint64_t{1} << 63, uint64_t{kBytes + 8}, ~uint64_t{0}}) {
    Pair pair;
    std::memcpy(pair.raw + kSides, &lie, sizeof(lie));  // What a has written.
    CHECK(ReadStatus(*pair.b).code() == absl::StatusCode::kDataLoss);
    CHECK(pair.b->refusals().counters == 1);
    std::memcpy(pair.raw + kSides + kSideBytes + 64, &lie, sizeof(lie));  // What b has read.
    const std::string frame(pair.a->frame_bytes_max(), 'x');
    absl::StatusOr<bool> written = true;
    for (int i = 0; i < 5 && written.ok(); ++i) written = pair.a->Write(frame);
    CHECK(written.status().code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("Ring: memory that is not what was announced is not joined", "[ring]") {
  auto memory = [] { return SharedMemory::Create("ring-test", RingEnd::MemoryBytes(kBytes)).value(); };
  CHECK(RingEnd::Join(memory(), kBytes, kEpoch).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(RingEnd::Join(memory(), 2 * kBytes, kEpoch).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(RingEnd::Join(memory(), 5000, kEpoch).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(RingEnd::Join(memory(), size_t{1} << 40, kEpoch).status().code() == absl::StatusCode::kInvalidArgument);
  int plain[2];
  REQUIRE(::pipe(plain) == 0);
  UniqueFd writing(plain[1]);
  CHECK(SharedMemory::Map(UniqueFd(plain[0]), 4096).status().code() == absl::StatusCode::kInvalidArgument);
  int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(unsealed, 4096) == 0);
  CHECK(SharedMemory::Map(UniqueFd(::dup(unsealed)), 4096).status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(::fcntl(unsealed, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  CHECK(SharedMemory::Map(UniqueFd(::dup(unsealed)), 8192).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(SharedMemory::Map(UniqueFd(unsealed), 4096).status().code() == absl::StatusCode::kInvalidArgument);  // A hole.
}

}  // namespace
}  // namespace troupe
