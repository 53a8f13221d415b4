// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench_peer.h"

#include <unistd.h>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "tools/bench/meter.h"

namespace troupe::bench {
namespace {

// Calls that wait for an answer, answered in their order.
template <typename R>
class Window {
 public:
  explicit Window(int64_t in_flight) : calls_(static_cast<size_t>(in_flight)) {}

  // Waits for the oldest when the window is full.
  absl::Status Add(Future<R> call) {
    Future<R>& place = calls_[next_++ % calls_.size()];
    absl::Status answered = absl::OkStatus();
    if (place.valid()) answered = place.Get().status();
    place = std::move(call);
    return answered;
  }
  absl::Status Finish() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      Future<R>& place = calls_[next_++ % calls_.size()];
      if (place.valid()) TROUPE_RETURN_IF_ERROR(place.Get().status());
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Future<R>> calls_;
  size_t next_ = 0;
};

// One-way messages between two calls that tell how far the receiver is; two such stretches may be on their way.
constexpr int64_t kSendsBetweenCalls = 400;
constexpr int64_t kCallsBetweenLooks = 64;  // At the clock.

absl::Status SendOne(const Ref<BenchPeer>& other) {
  // Full queues empty themselves.
  for (Monotonic end = MonotonicNow() + absl::Seconds(10);;) {
    absl::Status sent = other.Send<&BenchPeer::Note>(int64_t{1});
    if (sent.code() != absl::StatusCode::kResourceExhausted || MonotonicNow() > end) return sent;
    PauseFor(absl::Microseconds(20));
  }
}

// Of calls with so many bytes each.
template <typename Call>
absl::StatusOr<double> GigabytesPerSecond(int64_t bytes, int64_t in_flight, absl::Duration budget, Call call) {
  Window<int64_t> window(in_flight);
  int64_t count = 0;
  Monotonic begin = MonotonicNow();
  for (Monotonic end = begin + budget; count == 0 || MonotonicNow() < end; ++count) {
    TROUPE_ASSIGN_OR_RETURN(Future<int64_t> answer, call());
    TROUPE_RETURN_IF_ERROR(window.Add(std::move(answer)));
  }
  TROUPE_RETURN_IF_ERROR(window.Finish());
  return static_cast<double>(count * bytes) / absl::ToDoubleSeconds(MonotonicNow() - begin) / 1e9;
}

}  // namespace

absl::StatusOr<int64_t> BenchPeer::Look(const Tensor& tensor) const {
  constexpr size_t kPageBytes = 4096;
  std::span<const uint8_t> bytes = tensor.values<uint8_t>();
  size_t ones = 0, pages = 0;
  for (size_t i = 0; i < bytes.size(); i += kPageBytes, ++pages) ones += bytes[i];
  if (ones != pages) return absl::DataLossError("the tensor's bytes are not those that were sent");
  return static_cast<int64_t>(bytes.size());
}

int64_t BenchPeer::Pid() const { return ::getpid(); }

void BenchPeer::Hang() const {
  while (true) PauseFor(absl::Seconds(1));
}

absl::StatusOr<double> BenchPeer::Call(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight,
                                       double seconds) const {
  return CallsPerSecond(others, in_flight, absl::Seconds(seconds));
}

absl::StatusOr<double> BenchPeer::Send(const Ref<BenchPeer>& other, double seconds) const {
  return SendsPerSecond(other, absl::Seconds(seconds));
}

TROUPE_ACTOR_REGISTER(BenchPeer, TROUPE_INIT());

absl::StatusOr<double> CallsPerSecond(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight,
                                      absl::Duration budget) {
  if (others.empty() || in_flight < 1) return absl::InvalidArgumentError("nobody to call");
  Window<int64_t> window(in_flight);
  size_t next = 0;
  int64_t count = 0;
  Monotonic begin = MonotonicNow();
  for (Monotonic end = begin + budget; count == 0 || MonotonicNow() < end;) {
    for (int64_t i = 0; i < kCallsBetweenLooks; ++i, ++count) {
      const Ref<BenchPeer>& other = others[next++ % others.size()];
      TROUPE_RETURN_IF_ERROR(window.Add(other.Call<&BenchPeer::Add>(int64_t{1})));
    }
  }
  TROUPE_RETURN_IF_ERROR(window.Finish());
  return static_cast<double>(count) / absl::ToDoubleSeconds(MonotonicNow() - begin);
}

absl::StatusOr<double> SendsPerSecond(const Ref<BenchPeer>& other, absl::Duration budget) {
  TROUPE_ASSIGN_OR_RETURN(int64_t before, other.Call<&BenchPeer::Add>(int64_t{0}).Get());
  Window<int64_t> calls(1);
  int64_t count = 0;
  Monotonic begin = MonotonicNow();
  for (Monotonic end = begin + budget; count == 0 || MonotonicNow() < end;) {
    for (int64_t i = 0; i < kSendsBetweenCalls; ++i, ++count) TROUPE_RETURN_IF_ERROR(SendOne(other));
    TROUPE_RETURN_IF_ERROR(calls.Add(other.Call<&BenchPeer::Add>(int64_t{0})));
  }
  TROUPE_RETURN_IF_ERROR(calls.Finish());
  absl::Duration took = MonotonicNow() - begin;
  TROUPE_ASSIGN_OR_RETURN(int64_t after, other.Call<&BenchPeer::Add>(int64_t{0}).Get());
  if (after - before != count) {
    return absl::DataLossError(std::to_string(count) + " messages were sent and " + std::to_string(after - before) +
                               " arrived");
  }
  return static_cast<double>(count) / absl::ToDoubleSeconds(took);
}

absl::StatusOr<double> StringsPerSecond(const Ref<BenchPeer>& other, const std::string& bytes, int64_t in_flight,
                                        absl::Duration budget) {
  return GigabytesPerSecond(static_cast<int64_t>(bytes.size()), in_flight, budget,
                            [&]() -> absl::StatusOr<Future<int64_t>> { return other.Call<&BenchPeer::Length>(bytes); });
}

absl::StatusOr<double> TensorsPerSecond(const Ref<BenchPeer>& other, int64_t bytes, int64_t in_flight,
                                        absl::Duration budget, const std::function<absl::StatusOr<Tensor>()>& make) {
  return GigabytesPerSecond(bytes, in_flight, budget, [&]() -> absl::StatusOr<Future<int64_t>> {
    TROUPE_ASSIGN_OR_RETURN(Tensor tensor, make());
    return other.Call<&BenchPeer::Look>(tensor);
  });
}

}  // namespace troupe::bench
