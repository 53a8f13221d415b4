// SPDX-License-Identifier: Apache-2.0
// BenchPeer: the actor that benchmarks call, and that calls others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/actor/object_ref.h"

namespace troupe::bench {

class BenchPeer : public Actor {
 public:
  int64_t Add(int64_t n) { return sum_ += n; }
  void Note(int64_t n) { sum_ += n; }  // For one-way sends.
  int64_t Length(const std::string& bytes) const { return static_cast<int64_t>(bytes.size()); }
  // Reads the tensor at each page. Its bytes, of which each must be 1.
  absl::StatusOr<int64_t> Look(const Tensor& tensor) const;
  int64_t Pid() const;
  void Hang() const;  // Until its process is killed.

  // Calls `others` in turn, `in_flight` calls without an answer at most. How many were answered a second.
  absl::StatusOr<double> Call(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight, double seconds) const;
  // Sends one way. How many arrived a second.
  absl::StatusOr<double> Send(const Ref<BenchPeer>& other, double seconds) const;

 private:
  int64_t sum_ = 0;
};
TROUPE_ACTOR_INTERFACE(BenchPeer, TROUPE_METHODS(Add, Note, Length, Look, Pid, Hang, Call, Send));

// What BenchPeer's methods of that name do, for a thread that is no actor.
absl::StatusOr<double> CallsPerSecond(const std::vector<Ref<BenchPeer>>& others, int64_t in_flight,
                                      absl::Duration budget);
absl::StatusOr<double> SendsPerSecond(const Ref<BenchPeer>& other, absl::Duration budget);
// `bytes` as the argument of calls: as they are, which copies them into and out of messages; GB/s.
absl::StatusOr<double> StringsPerSecond(const Ref<BenchPeer>& other, const std::string& bytes, int64_t in_flight,
                                        absl::Duration budget);
// The same as tensors of so many ones: `make` gives one for each call.
absl::StatusOr<double> TensorsPerSecond(const Ref<BenchPeer>& other, int64_t bytes, int64_t in_flight,
                                        absl::Duration budget, const std::function<absl::StatusOr<Tensor>()>& make);

}  // namespace troupe::bench
