// SPDX-License-Identifier: Apache-2.0
// Calls over a gRPC stream, as between machines, beside plain gRPC; and over rings whose readers spin.
#include "tools/bench/bench.h"

namespace troupe::bench {
namespace {

constexpr int64_t kInFlight = 1024;
constexpr int64_t kLargeInFlight = 8;
constexpr int64_t kLargeBytes = 1 << 20;

absl::StatusOr<double> SyncCall(const Ref<BenchPeer>& ref, absl::Duration budget) {
  return MicrosecondsEach(budget, [&] { return ref.Call<&BenchPeer::Add>(int64_t{1}).Get().status(); });
}

Sampler Scaled(Sampler sample, double factor) {
  return [sample = std::move(sample), factor](absl::Duration budget) {
    absl::StatusOr<double> value = sample(budget);
    if (value.ok()) *value *= factor;
    return value;
  };
}

// Plain gRPC by itself, under the names that the programs of tools/peers/ give the same work.
std::vector<Work> BareWorks(const Bench& bench, const Sampler& unary, const Limit& round_trip, const Limit& messages,
                            const Limit& large) {
  return {
      {.name = "bare_grpc_call_sync",
       .unit = "us",
       .more_is_better = false,
       .sample = unary,
       .limit = bench.machine().TcpRoundTrip()},
      {.name = "bare_grpc_stream_sync",
       .unit = "us",
       .more_is_better = false,
       .sample = round_trip.sample,
       .limit = bench.machine().TcpRoundTrip()},
      {.name = "bare_grpc_call_pipelined", .unit = "calls/s", .sample = messages.sample},
      {.name = "bare_grpc_argument_1MiB_pipelined",
       .unit = "GB/s",
       .sample = large.sample,
       .limit = Machine::Memcpy(kLargeBytes, 64)},
  };
}

}  // namespace

void MeasureGrpc(Bench& bench, Meter& meter) {
  TransportPair& pair = bench.pair();
  Limit round_trip = {"bare gRPC stream round trip",
                      [&](absl::Duration budget) { return pair.bare().StreamRoundTrip(budget); }};
  Limit messages = {"bare gRPC stream, hinted",
                    [&](absl::Duration budget) { return pair.bare().StreamMessages(budget, 0, kInFlight); }};
  Limit large = {
      "bare gRPC stream",
      Scaled([&](absl::Duration budget) { return pair.bare().StreamMessages(budget, kLargeBytes, kLargeInFlight); },
             kLargeBytes / 1e9)};
  auto argument = std::make_shared<std::string>(static_cast<size_t>(kLargeBytes), 'x');
  std::vector<Work> works = {
      {.name = "grpc_call_sync",
       .unit = "us",
       .more_is_better = false,
       .sample = [&](absl::Duration budget) { return SyncCall(pair.by_grpc(), budget); },
       .limit = round_trip,
       .target_ratio = 1.2},
      {.name = "grpc_call_pipelined",
       .unit = "calls/s",
       .sample = [&](absl::Duration budget) { return CallsPerSecond({pair.by_grpc()}, kInFlight, budget); },
       .limit = messages,
       .target_ratio = 5},
      {.name = "grpc_argument_1MiB_pipelined",
       .unit = "GB/s",
       .sample =
           [&, argument](absl::Duration budget) {
             return StringsPerSecond(pair.by_grpc(), *argument, kLargeInFlight, budget);
           },
       .limit = large,
       .target_ratio = 1},
  };
  if (bench.options().spin > absl::ZeroDuration()) {
    works.push_back({.name = "call_sync_spinning",
                     .unit = "us",
                     .more_is_better = false,
                     .sample = [&](absl::Duration budget) { return SyncCall(pair.by_spinning_rings(), budget); },
                     .limit = bench.machine().SpinRoundTrip(),
                     .target = 3});
  }
  for (Work& work : BareWorks(
           bench, [&](absl::Duration budget) { return pair.bare().UnaryRoundTrip(budget); }, round_trip, messages,
           large)) {
    works.push_back(std::move(work));
  }
  meter.Run(works, [&] { return pair.Connect(); });
}

}  // namespace troupe::bench
