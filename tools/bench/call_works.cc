// SPDX-License-Identifier: Apache-2.0
// Calls between two processes of one machine, over shared-memory rings.
#include "runtime/base/status.h"
#include "tools/bench/bench.h"

namespace troupe::bench {
namespace {

constexpr int64_t kInFlight = 1024;
constexpr int64_t kPairInFlight = 512;  // Two callers each.
constexpr int64_t kLargeInFlight = 8;

std::string SizeName(int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "MiB";
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "KiB";
  return std::to_string(bytes) + "B";
}

struct Processes {
  Ref<BenchPeer> peer;
  std::vector<Ref<BenchPeer>> callers, called;

  absl::Status Start(Bench& bench) {
    TROUPE_ASSIGN_OR_RETURN(peer, bench.Spawn());
    for (std::vector<Ref<BenchPeer>>* side : {&callers, &called}) {
      for (int i = 0; i < 2; ++i) {
        TROUPE_ASSIGN_OR_RETURN(Ref<BenchPeer> one, bench.Spawn());
        side->push_back(one);
      }
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<double> PairsCall(const Processes& processes, absl::Duration budget) {
  std::vector<Future<double>> rates;
  for (const Ref<BenchPeer>& caller : processes.callers) {
    rates.push_back(caller.Call<&BenchPeer::Call>(processes.called, kPairInFlight, absl::ToDoubleSeconds(budget)));
  }
  double sum = 0;
  for (Future<double>& rate : rates) {
    TROUPE_ASSIGN_OR_RETURN(double one, rate.Get());
    sum += one;
  }
  return sum;
}

// As tensors, which are objects (written once, and read where they lie), and as strings.
void AddArguments(Bench& bench, const Processes& processes, std::vector<Work>& works) {
  for (int64_t bytes : bench.options().payload_bytes) {
    auto ones = std::make_shared<std::string>(static_cast<size_t>(bytes), '\1');
    auto make = [&bench, ones]() -> absl::StatusOr<Tensor> {
      TensorSpan span(DType::kUInt8, {static_cast<int64_t>(ones->size())}, ones->data());
      TROUPE_ASSIGN_OR_RETURN(ObjectRef<Tensor> ref, bench.runtime().Put(span));
      return bench.runtime().Get(ref);
    };
    // In blocks that no cache holds: as many as 64 of 1 MiB.
    Limit copy = Machine::Memcpy(bytes, static_cast<int>(std::max<int64_t>(64, (64 << 20) / bytes)));
    for (bool pipelined : {false, true}) {
      const int64_t in_flight = pipelined ? kLargeInFlight : 1;
      const std::string name = SizeName(bytes) + (pipelined ? "_pipelined" : "_sync");
      Work tensors = {.name = "argument_" + name, .unit = "GB/s", .limit = copy};
      tensors.sample = [&processes, make, bytes, in_flight](absl::Duration budget) {
        return TensorsPerSecond(processes.peer, bytes, in_flight, budget, make);
      };
      if (bytes == 1 << 20) tensors.target_ratio = 0.8;
      Work strings = {.name = "string_" + name, .unit = "GB/s", .limit = copy};
      strings.sample = [&processes, ones, in_flight](absl::Duration budget) {
        return StringsPerSecond(processes.peer, *ones, in_flight, budget);
      };
      works.push_back(std::move(tensors));
      works.push_back(std::move(strings));
    }
  }
}

}  // namespace

void MeasureCalls(Bench& bench, Meter& meter) {
  Processes processes;
  const Machine& machine = bench.machine();
  std::vector<Work> works;
  works.push_back({.name = "call_sync",
                   .unit = "us",
                   .more_is_better = false,
                   .sample =
                       [&](absl::Duration budget) {
                         return MicrosecondsEach(
                             budget, [&] { return processes.peer.Call<&BenchPeer::Add>(int64_t{1}).Get().status(); });
                       },
                   .limit = machine.FutexRoundTrip(),
                   .target_ratio = 1.3});
  works.push_back({.name = "call_pipelined",
                   .unit = "calls/s",
                   .sample = [&](absl::Duration budget) { return CallsPerSecond({processes.peer}, kInFlight, budget); },
                   .limit = machine.RingMessages(),
                   .target = 1e6});
  works.push_back({.name = "send",
                   .unit = "msgs/s",
                   .sample = [&](absl::Duration budget) { return SendsPerSecond(processes.peer, budget); },
                   .limit = machine.RingMessages()});
  works.push_back({.name = "call_2_to_2",
                   .unit = "calls/s",
                   .sample = [&](absl::Duration budget) { return PairsCall(processes, budget); },
                   .limit = machine.RingMessages(),
                   .target = 1e6});
  AddArguments(bench, processes, works);
  meter.Run(works, [&] { return processes.Start(bench); });
}

}  // namespace troupe::bench
