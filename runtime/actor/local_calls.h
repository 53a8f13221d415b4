// SPDX-License-Identifier: Apache-2.0
// LocalCalls: those calls within a process that somebody needs to find again: one whose deadline a timer is to keep
// (others end when who waits for them looks), and one that an actor waits for, by its number in the WaitGraph.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/actor/future_state.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"

namespace troupe {

namespace internal {

// A call that LocalCalls knows.
class FoundCall : public PendingCall {
 public:
  // The first result counts.
  virtual void Fail(absl::Status status) = 0;
};

}  // namespace internal

class LocalCalls {
 public:
  using Call = internal::FoundCall;

  // It will be among those of TakeDue, unless it is gone by then.
  void Arm(std::weak_ptr<Call> call, Monotonic deadline);
  // The soonest; perhaps of a call that has ended.
  Monotonic NextDeadline() const;
  std::vector<std::shared_ptr<Call>> TakeDue(Monotonic now);
  // `sooner` runs, on any thread, when NextDeadline has become sooner. Null: no more.
  void SetTimer(std::function<void()> sooner);

  // Of one call's or message's arguments. Before the first.
  void SetPayloadMax(size_t bytes) { payload_bytes_max_ = bytes; }
  size_t payload_bytes_max() const { return payload_bytes_max_; }

  // For tests: how many are armed, with those that have ended and were not dropped yet.
  size_t armed() const {
    MutexLock lock(mutex_);
    return armed_.size();
  }

  // A number for it that no other call of the process has. For Forget and Find.
  uint64_t Number(std::weak_ptr<Call> call);
  void Forget(uint64_t number);
  // Null: it is not known.
  std::shared_ptr<Call> Find(uint64_t number) const;

 private:
  // Numbers of the router's other calls are below.
  static constexpr uint64_t kFirstNumber = uint64_t{1} << 63;
  // Below that many, those that have ended are not looked for.
  static constexpr size_t kArmedMin = 4096;

  struct Armed {
    Monotonic deadline;
    std::weak_ptr<Call> call;
    bool operator>(const Armed& other) const { return deadline > other.deadline; }
  };
  void DropEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  size_t payload_bytes_max_ = SIZE_MAX;
  mutable Mutex mutex_;
  std::vector<Armed> armed_ ABSL_GUARDED_BY(mutex_);  // A heap with the soonest first.
  size_t armed_max_ ABSL_GUARDED_BY(mutex_) = kArmedMin;
  std::function<void()> sooner_ ABSL_GUARDED_BY(mutex_);
  uint64_t numbered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, std::weak_ptr<Call>> numbers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
