// SPDX-License-Identifier: Apache-2.0
// Simulator: time, chance and order of a simulated cluster. Everything happens in events at points of simulated time;
// equal seeds give equal runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"

namespace troupe::simulation {

class Simulator {
 public:
  explicit Simulator(uint64_t seed) : random_(seed) {}

  Monotonic now() const { return now_; }

  // Runs `event` after `delay`; events of one moment in the order in which they were made.
  void After(absl::Duration delay, std::function<void()> event) { At(now_ + delay, std::move(event)); }
  void At(Monotonic when, std::function<void()> event) {
    events_.emplace(std::pair(std::max(when, now_), ++made_), std::move(event));
  }

  // False when nothing is left before `end`.
  bool RunOne(Monotonic end) {
    if (events_.empty() || events_.begin()->first.first > end) return false;
    auto event = events_.extract(events_.begin());
    now_ = event.key().first;
    event.mapped()();
    return true;
  }

  // In [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Nanoseconds(Between(absl::ToInt64Nanoseconds(low), absl::ToInt64Nanoseconds(high)));
  }
  bool Chance(int percent) { return Between(0, 99) < percent; }
  uint64_t Bits() { return random_(); }

 private:
  Monotonic now_ = Monotonic::FromNanoseconds(1'000'000'000);
  std::mt19937_64 random_;
  uint64_t made_ = 0;
  std::map<std::pair<Monotonic, uint64_t>, std::function<void()>> events_;
};

// TROUPE_SIM_TRACE=1 prints what happens, for a seed that fails.
inline bool Tracing() {
  static const bool on = std::getenv("TROUPE_SIM_TRACE") != nullptr;
  return on;
}
inline void Trace(Monotonic now, const std::string& what) {
  if (Tracing()) std::fprintf(stderr, "%10.4f %s\n", static_cast<double>(now.nanoseconds()) / 1e9, what.c_str());
}

// Ends the run with what went wrong; the test prints the seed.
struct Broken {
  std::string what;
};
inline void Require(bool holds, const std::string& what) {
  if (!holds) throw Broken{what};
}

}  // namespace troupe::simulation
