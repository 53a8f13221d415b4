// SPDX-License-Identifier: Apache-2.0
// Waiting for several futures at once. None of them is used up: Get of a future that is ready does not wait.
//
//   std::vector<Future<int64_t>> sums = ...;
//   absl::StatusOr<std::vector<size_t>> ready = WaitN(sums, 3, MonotonicNow() + absl::Seconds(1));
//   if (WaitAll(sums).ok()) ...
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/future.h"

namespace troupe {

namespace internal {

// `gate` is set when `count` of `futures` are ready; observers are taken back when it goes out of scope.
class ReadyCounter {
 public:
  ReadyCounter(std::vector<FutureBase*> futures, size_t count) : futures_(std::move(futures)) {
    if (count == 0) share_->gate.Open();
    share_->missing = static_cast<int64_t>(count);
    for (FutureBase* future : futures_) {
      ids_.push_back(future->Observe([share = share_] {
        if (--share->missing == 0) share->gate.Open();
      }));
    }
  }
  ~ReadyCounter() {
    for (size_t i = 0; i < futures_.size(); ++i) futures_[i]->Unobserve(ids_[i]);
  }
  ReadyCounter(const ReadyCounter&) = delete;
  ReadyCounter& operator=(const ReadyCounter&) = delete;

  Gate& gate() { return share_->gate; }

 private:
  struct Share {
    std::atomic<int64_t> missing{0};
    Gate gate;
  };
  const std::shared_ptr<Share> share_ = std::make_shared<Share>();
  const std::vector<FutureBase*> futures_;
  std::vector<uint64_t> ids_;
};

}  // namespace internal

// Waits until `count` of them are ready (all, if there are fewer) and returns the indices of those that are, ascending;
// there may be more than `count`. At the deadline it returns those that are ready then, fewer than `count`.
// FAILED_PRECONDITION with CALL_DEADLOCK as of Future::Get, where all of them are waited for.
template <typename R>
absl::StatusOr<std::vector<size_t>> WaitN(const std::vector<Future<R>>& futures, size_t count,
                                          Monotonic deadline = Monotonic::Infinite()) {
  std::vector<internal::FutureBase*> bases;
  for (const Future<R>& future : futures) bases.push_back(future.base());
  count = std::min(count, futures.size());
  internal::ReadyCounter counter(bases, count);
  if (count < bases.size()) bases.clear();  // No single one is needed.
  absl::Status waited = internal::WaitFor(counter.gate(), bases, deadline);
  if (!waited.ok() && !absl::IsDeadlineExceeded(waited)) return waited;
  std::vector<size_t> ready;
  for (size_t i = 0; i < futures.size(); ++i) {
    if (futures[i].Ready()) ready.push_back(i);
  }
  return ready;
}

// The first that is ready, by index. DEADLINE_EXCEEDED: none is. INVALID_ARGUMENT: there are none to wait for.
template <typename R>
absl::StatusOr<size_t> WaitAny(const std::vector<Future<R>>& futures, Monotonic deadline = Monotonic::Infinite()) {
  if (futures.empty()) return absl::InvalidArgumentError("there are no futures to wait for");
  absl::StatusOr<std::vector<size_t>> ready = WaitN(futures, 1, deadline);
  if (!ready.ok()) return ready.status();
  if (ready->empty()) return absl::DeadlineExceededError("none of " + std::to_string(futures.size()) + " is ready");
  return ready->front();
}

// OK: all are ready. DEADLINE_EXCEEDED says how many are not.
template <typename R>
absl::Status WaitAll(const std::vector<Future<R>>& futures, Monotonic deadline = Monotonic::Infinite()) {
  absl::StatusOr<std::vector<size_t>> ready = WaitN(futures, futures.size(), deadline);
  if (!ready.ok()) return ready.status();
  if (ready->size() == futures.size()) return absl::OkStatus();
  return absl::DeadlineExceededError(std::to_string(futures.size() - ready->size()) + " of " +
                                     std::to_string(futures.size()) + " are not ready");
}

}  // namespace troupe
