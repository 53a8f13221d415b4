// SPDX-License-Identifier: Apache-2.0
// Promise<R> and Future<R>: a result that arrives once. Future<void> carries an absl::Status, every other Future<R> an
// absl::StatusOr<R>.
//
// A Future is used up by one Get, one Then or one co_await (task.h). A Promise whose last copy goes away without a
// result sets UNAVAILABLE, so that nobody waits for ever. Both are safe to use from any thread.
//
//   absl::StatusOr<int64_t> sum = counter.Call<&Counter::Add>(5).Get();
//   counter.Call<&Counter::Add>(5).Then([](absl::StatusOr<int64_t> sum) { ... });
//
// Several at once: wait.h.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/future_state.h"
#include "runtime/base/callback.h"
#include "runtime/base/check.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/clock.h"

namespace troupe {

namespace internal {

template <typename R>
struct FutureResult {
  using type = absl::StatusOr<R>;
};
template <>
struct FutureResult<void> {
  using type = absl::Status;
};

template <typename Result>
class FutureState : public FutureBase {
 public:
  using Callback = ::troupe::Callback<void(Result)>;

  // The first result counts.
  void Set(Result result) {
    Callback callback;
    Settled settled;
    {
      MutexLock lock(mutex_);
      if (IsSet()) return;
      if (callback_) {
        callback = std::move(callback_);
      } else {
        result_.emplace(std::move(result));
      }
      settled = Settle();
    }
    Tell(settled);
    if (callback) callback(std::move(result));
  }

  void Then(Callback callback) {
    if (!IsSet()) {
      if (call() != nullptr) call()->Arm();
      MutexLock lock(mutex_);
      if (!IsSet()) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback(Take());
  }

  // Of the promises, which share it with the future: the last that goes without a result sets one.
  void AddPromise() { promises_.fetch_add(1, std::memory_order_relaxed); }
  void DropPromise() {
    if (promises_.fetch_sub(1, std::memory_order_acq_rel) > 1 || IsSet()) return;
    Set(absl::UnavailableError("the promise was dropped without a result"));
  }

  // When it is set.
  Result Take() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    TROUPE_CHECK(result_.has_value(), "a future is used once");
    Result result = *std::move(result_);
    result_.reset();
    return result;
  }

 private:
  std::optional<Result> result_ ABSL_GUARDED_BY(mutex_);  // When it is set: of the one that uses the future.
  Callback callback_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> promises_{0};
};

}  // namespace internal

template <typename R>
class [[nodiscard]] Future {
 public:
  using Result = typename internal::FutureResult<R>::type;

  // Holds nothing; only for members that are assigned later.
  Future() = default;
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  bool valid() const { return state_ != nullptr; }
  // Whether Get would not wait.
  bool Ready() const { return state_->IsSet() || state_->IsSetOrExpired(MonotonicNow()); }

  // Waits. A call's future ends by itself at the call's deadline; `deadline` may end the waiting sooner, with
  // DEADLINE_EXCEEDED: the future is then still good, and Get may be tried again. In a handler it occupies the actor:
  // a wait that could only end after itself (a call to oneself, a cycle of actors that wait for each other) is
  // FAILED_PRECONDITION with CALL_DEADLOCK.
  Result Get(Monotonic deadline = Monotonic::Infinite()) {
    internal::FutureBase* const needed[] = {state_.get()};
    if (absl::Status waited = internal::WaitFor(*state_, needed, deadline); !waited.ok()) return waited;
    return std::exchange(state_, nullptr)->Take();
  }

  // Calls `callback` once with the result: at once on this thread when it is there, else on the thread that brings it
  // (of a transport, or of an actor). The callback must be short and must not block.
  void Then(Callback<void(Result)> callback) { std::exchange(state_, nullptr)->Then(std::move(callback)); }

  // The result is not wanted any more: the future of a call ends with CALL_CANCELLED, unless it has ended already. A
  // call that was not begun is not begun; one that runs is not interrupted.
  void Cancel() {
    if (state_->call() != nullptr) state_->call()->Cancel();
  }

  // A future that is ready.
  static Future Of(Result result) {
    Future future(std::make_shared<internal::FutureState<Result>>());
    future.state_->Set(std::move(result));
    return future;
  }

  // For Ref: of a call within the process.
  static Future OfState(std::shared_ptr<internal::FutureState<Result>> state) { return Future(std::move(state)); }

  // For wait.h and task.h.
  internal::FutureBase* base() const { return state_.get(); }
  std::shared_ptr<internal::FutureState<Result>> TakeState() { return std::exchange(state_, nullptr); }

 private:
  template <typename>
  friend class Promise;
  explicit Future(std::shared_ptr<internal::FutureState<Result>> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::FutureState<Result>> state_;
};

// Copies name the same result.
template <typename R>
class Promise {
 public:
  using Result = typename Future<R>::Result;

  using State = internal::FutureState<Result>;

  Promise() : Promise(std::make_shared<State>()) {}
  // For Ref: a state that is a call's.
  explicit Promise(std::shared_ptr<State> state) : state_(std::move(state)) { state_->AddPromise(); }
  Promise(const Promise& other) : state_(other.state_) {
    if (state_ != nullptr) state_->AddPromise();
  }
  Promise(Promise&& other) noexcept = default;
  Promise& operator=(Promise other) noexcept {
    state_.swap(other.state_);
    return *this;
  }
  ~Promise() {
    if (state_ != nullptr) state_->DropPromise();
  }

  // It may be taken once.
  Future<R> TakeFuture() { return Future<R>(state_); }

  // The first result counts. Who waits for it may take the promise away while this returns.
  void Set(Result result) const {
    std::shared_ptr<State> state = state_;
    state->Set(std::move(result));
  }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace troupe
