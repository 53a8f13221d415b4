// SPDX-License-Identifier: Apache-2.0
// BenchPeer: the actor that benchmarks call, and that calls others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/actor/actor.h"

namespace troupe::bench {

class BenchPeer : public Actor {
 public:
  int64_t Add(int64_t n) { return sum_ += n; }
  void Note(int64_t n) { sum_ += n; }  // For one-way sends.
  int64_t Length(const std::string& bytes) const { return static_cast<int64_t>(bytes.size()); }
  int64_t Pid() const;
  void Hang() const;  // Until its process is killed.

  // Calls `others` in turn, `in_flight` calls without an answer at most. How many were answered a second.
  absl::StatusOr<double> Call(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight, double seconds) const;
  // Sends one way. How many arrived a second.
  absl::StatusOr<double> Send(const Ref<BenchPeer>& other, double seconds) const;

 private:
  int64_t sum_ = 0;
};
TROUPE_ACTOR_INTERFACE(BenchPeer, TROUPE_METHODS(Add, Note, Length, Pid, Hang, Call, Send));

// What BenchPeer's methods of that name do, for a thread that is no actor.
absl::StatusOr<double> CallsPerSecond(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight,
                                      absl::Duration budget);
absl::StatusOr<double> SendsPerSecond(const Ref<BenchPeer>& other, absl::Duration budget);
// `bytes` as the argument of calls; GB/s.
absl::StatusOr<double> ArgumentsPerSecond(const Ref<BenchPeer>& other, const std::string& bytes, int64_t in_flight,
                                          absl::Duration budget);

}  // namespace troupe::bench
