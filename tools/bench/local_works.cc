// SPDX-License-Identifier: Apache-2.0
// Actors within one process.
#include <malloc.h>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/bench/bench.h"

namespace troupe::bench {
namespace {

constexpr int64_t kInFlight = 1024;

SpawnOptions Roomy() {
  SpawnOptions options;
  options.mailbox.messages_max = 4 * kInFlight;
  return options;
}

// Of all arenas.
int64_t HeapBytes() {
  struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

struct Crowd {
  absl::Duration took;
  int64_t bytes = 0;  // Of the heap.
};

// Spawns `size` actors and ends them again.
absl::StatusOr<Crowd> SpawnCrowd(Runtime& runtime, int64_t size) {
  std::vector<Ref<BenchPeer>> actors;
  actors.reserve(static_cast<size_t>(size));
  int64_t bytes_before = HeapBytes();
  Monotonic begin = MonotonicNow();
  for (int64_t i = 0; i < size; ++i) {
    TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> actor, runtime.Spawn<BenchPeer>({}));
    actors.push_back(std::move(actor));
  }
  Crowd crowd = {MonotonicNow() - begin, HeapBytes() - bytes_before};
  for (const Ref<BenchPeer>& actor : actors) TROUPE_RETURN_IF_ERROR(runtime.Stop(actor, "it was counted"));
  return crowd;
}

absl::StatusOr<double> SpawnsPerSecond(Runtime& runtime, absl::Duration budget) {
  constexpr int64_t kCrowd = 1000;
  absl::Duration took;
  int64_t count = 0;
  for (Monotonic end = MonotonicNow() + budget; count == 0 || MonotonicNow() < end; count += kCrowd) {
    TROUPE_ASSIGN_OR_RETURN(Crowd crowd, SpawnCrowd(runtime, kCrowd));
    took += crowd.took;
  }
  return static_cast<double>(count) / absl::ToDoubleSeconds(took);
}

}  // namespace

void MeasureLocal(Bench& bench, Meter& meter) {
  Ref<BenchPeer> caller, called;
  std::vector<Work> works = {
      {.name = "local_call_sync",
       .unit = "us",
       .more_is_better = false,
       .sample =
           [&](absl::Duration budget) {
             return MicrosecondsEach(budget, [&] { return called.Call<&BenchPeer::Add>(int64_t{1}).Get().status(); });
           },
       .limit = Machine::ThreadRoundTrip(),
       .target_ratio = 1.3},
      {.name = "local_call_pipelined",
       .unit = "calls/s",
       .sample =
           [&](absl::Duration budget) {
             std::vector<Ref<BenchPeer>> others = {called};
             return caller.Call<&BenchPeer::Call>(others, kInFlight, absl::ToDoubleSeconds(budget)).Get();
           }},
      {.name = "local_send",
       .unit = "msgs/s",
       .sample =
           [&](absl::Duration budget) {
             return caller.Call<&BenchPeer::Send>(called, absl::ToDoubleSeconds(budget)).Get();
           }},
      {.name = "local_spawn",
       .unit = "actors/s",
       .sample = [&](absl::Duration budget) { return SpawnsPerSecond(bench.runtime(), budget); }},
      {.name = "actor_memory",
       .unit = "B",
       .more_is_better = false,
       .sample = [&](absl::Duration) -> absl::StatusOr<double> {
         int64_t size = bench.options().quick ? 1000 : 20'000;
         TROUPE_ASSIGN_OR_RETURN(Crowd crowd, SpawnCrowd(bench.runtime(), size));
         return static_cast<double>(crowd.bytes) / static_cast<double>(size);
       },
       .repeats_max = 3},
  };
  meter.Run(works, [&]() -> absl::Status {
    TROUPE_RETURN_IF_ERROR(bench.StartRuntime());
    TROUPE_ASSIGN_OR_RETURN(caller, bench.runtime().Spawn<BenchPeer>(Roomy()));
    TROUPE_ASSIGN_OR_RETURN(called, bench.runtime().Spawn<BenchPeer>(Roomy()));
    return absl::OkStatus();
  });
}

}  // namespace troupe::bench
