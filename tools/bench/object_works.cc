// SPDX-License-Identifier: Apache-2.0
// Objects: put and got in one process, read in others without a copy.
#include <optional>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_reader.h"

namespace troupe::bench {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kLarge = 64 * kMiB;
constexpr int64_t kSmall = 64;
constexpr int kHolders = 8;
constexpr int64_t kInFlight = 8;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// What is put, and who reads it.
struct Objects {
  std::string large = std::string(static_cast<size_t>(kLarge), 'x');
  std::string medium = std::string(static_cast<size_t>(kMiB), 'x');
  std::string small = std::string(static_cast<size_t>(kSmall), 'x');
  ObjectRef<ObjectBytes> small_ref;
  Ref<BenchReader> reader;
  std::optional<Group<BenchReader>> holders;

  absl::Status Start(Bench& bench) {
    TROUPE_RETURN_IF_ERROR(bench.StartRuntime());
    SpawnOptions options;
    options.cpus = 0.01;
    TROUPE_ASSIGN_OR_RETURN(reader, bench.runtime().Spawn<BenchReader>(options));
    absl::StatusOr<Group<BenchReader>> group = bench.runtime().SpawnGroup<BenchReader>(kHolders, options);
    if (!group.ok()) return group.status();
    holders.emplace(*std::move(group));
    TROUPE_ASSIGN_OR_RETURN(small_ref, bench.runtime().Put(Bytes(small)));
    return absl::OkStatus();
  }
};

// Each object goes before the next one comes, so that its memory is used again.
Sampler Puts(Bench& bench, const std::string& bytes, double scale) {
  return [&bench, &bytes, scale](absl::Duration budget) {
    auto rate = RateOf(budget, [&]() -> absl::StatusOr<int64_t> {
      TROUPE_RETURN_IF_ERROR(bench.runtime().Put(Bytes(bytes)).status());
      return 1;
    });
    if (rate.ok()) *rate *= scale;
    return rate;
  };
}

absl::StatusOr<double> Gets(Bench& bench, const Objects& objects, absl::Duration budget) {
  return RateOf(budget, [&]() -> absl::StatusOr<int64_t> {
    constexpr int64_t kBatch = 1000;
    for (int64_t i = 0; i < kBatch; ++i) TROUPE_RETURN_IF_ERROR(bench.runtime().Get(objects.small_ref).status());
    return kBatch;
  });
}

// The mean time of Get in the other process, of an object that it has not seen.
absl::StatusOr<double> GetElsewhere(Bench& bench, const Objects& objects, absl::Duration budget) {
  double sum = 0;
  int64_t count = 0;
  for (Monotonic end = MonotonicNow() + budget; count == 0 || MonotonicNow() < end; ++count) {
    TROUPE_ASSIGN_OR_RETURN(ObjectRef<ObjectBytes> ref, bench.runtime().Put(Bytes(objects.large)));
    TROUPE_ASSIGN_OR_RETURN(double took_us, objects.reader.Call<&BenchReader::GetUs>(ref).Get());
    sum += took_us;
  }
  return sum / static_cast<double>(count);
}

// Put, called with the ref, got and looked through there; GB/s.
absl::StatusOr<double> Arguments(Bench& bench, const Objects& objects, const std::string& bytes, int64_t in_flight,
                                 absl::Duration budget) {
  std::vector<Future<int64_t>> calls;
  int64_t count = 0;
  Monotonic begin = MonotonicNow();
  for (Monotonic end = begin + budget; count == 0 || MonotonicNow() < end;) {
    calls.clear();
    for (int64_t i = 0; i < in_flight; ++i, ++count) {
      TROUPE_ASSIGN_OR_RETURN(ObjectRef<ObjectBytes> ref, bench.runtime().Put(Bytes(bytes)));
      calls.push_back(objects.reader.Call<&BenchReader::Look>(ref));
    }
    for (Future<int64_t>& call : calls) TROUPE_RETURN_IF_ERROR(call.Get().status());
  }
  double seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
  return static_cast<double>(count) * static_cast<double>(bytes.size()) / seconds / 1e9;
}

// From a put to the end of the last look, of all who hold it.
absl::StatusOr<double> ToAll(Bench& bench, const Objects& objects) {
  Monotonic begin = MonotonicNow();
  TROUPE_ASSIGN_OR_RETURN(ObjectRef<ObjectBytes> ref, bench.runtime().Put(Bytes(objects.large)));
  TROUPE_RETURN_IF_ERROR(objects.holders->Broadcast<&BenchReader::Look>(ref).All().status());
  return absl::ToDoubleMilliseconds(MonotonicNow() - begin);
}

}  // namespace

void MeasureObjects(Bench& bench, Meter& meter) {
  Objects objects;
  Limit large_copy = Machine::Memcpy(kLarge, 1), medium_copy = Machine::Memcpy(kMiB, 64);
  Limit large_copy_ms = {"memcpy of 64 MiB", [large_copy](absl::Duration budget) {
                           absl::StatusOr<double> rate = large_copy.sample(budget);
                           if (rate.ok()) *rate = kLarge / *rate / 1e6;
                           return rate;
                         }};
  std::vector<Work> works = {
      {.name = "put_64MiB",
       .unit = "GB/s",
       .sample = Puts(bench, objects.large, kLarge / 1e9),
       .limit = large_copy,
       .target_ratio = 0.95},
      {.name = "put_1MiB", .unit = "GB/s", .sample = Puts(bench, objects.medium, kMiB / 1e9), .limit = medium_copy},
      {.name = "get_64MiB",
       .unit = "us",
       .more_is_better = false,
       .sample = [&](absl::Duration budget) { return GetElsewhere(bench, objects, budget); },
       .limit = bench.machine().FutexRoundTrip(),
       .target = 20},
      {.name = "put_small", .unit = "puts/s", .sample = Puts(bench, objects.small, 1), .target = 200e3},
      {.name = "get_small",
       .unit = "gets/s",
       .sample = [&](absl::Duration budget) { return Gets(bench, objects, budget); },
       .target = 2e6},
  };
  for (bool pipelined : {false, true}) {
    works.push_back(
        {.name = pipelined ? "object_1MiB_pipelined" : "object_1MiB_sync",
         .unit = "GB/s",
         .sample = [&, in_flight = pipelined ? kInFlight : 1](
                       absl::Duration budget) { return Arguments(bench, objects, objects.medium, in_flight, budget); },
         .limit = medium_copy,
         .target_ratio = 0.8});
  }
  works.push_back({.name = "object_64MiB_sync",
                   .unit = "GB/s",
                   .sample = [&](absl::Duration budget) { return Arguments(bench, objects, objects.large, 1, budget); },
                   .limit = large_copy});
  works.push_back({.name = "object_64MiB_to_8",
                   .unit = "ms",
                   .more_is_better = false,
                   .sample = [&](absl::Duration) { return ToAll(bench, objects); },
                   .limit = large_copy_ms});
  meter.Run(works, [&] { return objects.Start(bench); });
}

}  // namespace troupe::bench
