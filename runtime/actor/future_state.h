// SPDX-License-Identifier: Apache-2.0
// What a promise and its future share, without the type of the result: whether it is set, who waits, which call it
// answers. Internal to future.h, wait.h and the executors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/callback.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "runtime/env/futex.h"

namespace troupe {

struct ActorLife;

namespace internal {

class FutureBase;

// Wakes a thread that waits in a way of its own. Any thread; does nothing on the thread that waits.
class Waker {
 public:
  virtual void Wake() = 0;

 protected:
  ~Waker() = default;
};

// The call that a future answers. `waited_for` lets an actor that waits find out that it waits for itself; it is null
// where the answer does not need the callee's turn (methods that return a Future).
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual void Cancel() = 0;
  virtual const ActorLife* waited_for() const = 0;
  // Its number at the router.
  virtual uint64_t number() const = 0;
  // One whose deadline nobody keeps as long as nobody needs it: whoever waits no longer than that ends it then by
  // Expire (the first result counts), and Arm has a timer do so. Infinite: others see to it.
  virtual Monotonic deadline() const { return Monotonic::Infinite(); }
  virtual void Expire() {}
  virtual void Arm() {}
  // Waits for `future`, the one that it answers, by taking this process' messages on this thread, so that nobody has to
  // be woken. Returns when it is set, at the deadline, or at once where that cannot be done.
  virtual void WaitReading(FutureBase&, Monotonic) {}
};

class FutureBase {
 public:
  virtual ~FutureBase() = default;

  bool IsSet() const { return (state_.load(std::memory_order_acquire) & kSet) != 0; }
  // The same, where it may be over by now.
  bool IsSetOrExpired(Monotonic now) {
    if (!IsSet() && call_ != nullptr && call_->deadline() <= now) call_->Expire();
    return IsSet();
  }

  // On this thread, whatever the thread is.
  bool WaitHere(Monotonic deadline) {
    if (call_ != nullptr) call_->WaitReading(*this, deadline);
    while (!IsSet() && !HasPassed(deadline)) {
      if ((state_.fetch_or(kSlept, std::memory_order_acquire) & kSet) != 0) break;
      FutexWaitHere(state_, kSlept, deadline);
    }
    return IsSet();
  }

  // `observer` runs once when the result is there (now, if it is), on the thread that brings it, and takes nothing. The
  // id is for Unobserve, after which it does not begin any more.
  uint64_t Observe(Callback<void()> observer) {
    if (!IsSet() && call_ != nullptr) call_->Arm();
    {
      MutexLock lock(mutex_);
      if (!IsSet()) {
        if (observed_ == nullptr) observed_ = std::make_unique<Observed>();
        observed_->observers.emplace_back(++observed_->made, std::move(observer));
        return observed_->made;
      }
    }
    observer();
    return 0;
  }
  void Unobserve(uint64_t id) {
    MutexLock lock(mutex_);
    if (observed_ == nullptr) return;
    std::erase_if(observed_->observers, [id](const auto& observer) { return observer.first == id; });
  }

  // `waker` is woken when it is set, until ClearWaker. False: it is set, or another one stands there.
  bool SetWaker(Waker* waker) {
    MutexLock lock(mutex_);
    if (IsSet() || waker_ != nullptr) return false;
    waker_ = waker;
    return true;
  }
  void ClearWaker() {
    MutexLock lock(mutex_);
    waker_ = nullptr;
  }

  // Before the state is shared. `call` lives as long as this does.
  void SetCall(PendingCall* call) { call_ = call; }
  PendingCall* call() const { return call_; }

 protected:
  using Observers = std::vector<std::pair<uint64_t, Callback<void()>>>;

  // What is to be done without the lock, which others would find held.
  struct Settled {
    bool slept = false;
    Observers observers;
  };
  // It is set now.
  Settled Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Settled settled;
    if (observed_ != nullptr) settled.observers.swap(observed_->observers);
    settled.slept = (state_.fetch_or(kSet, std::memory_order_acq_rel) & kSlept) != 0;
    if (waker_ != nullptr) waker_->Wake();
    return settled;
  }
  // Uses nothing of this but where it lies: who was woken may take it away.
  void Tell(const Settled& settled) {
    if (settled.slept) FutexWakeHere(state_);
    for (const auto& [id, observer] : settled.observers) observer();
  }

  mutable Mutex mutex_;

 private:
  // Of those that do not sleep for it, which most results never have.
  struct Observed {
    Observers observers;
    uint64_t made = 0;
  };
  static constexpr uint32_t kSet = 1, kSlept = 2;  // state_: the result is there; somebody sleeps until then.

  std::unique_ptr<Observed> observed_ ABSL_GUARDED_BY(mutex_);  // Null: none so far.
  Waker* waker_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::atomic<uint32_t> state_{0};  // kSet is set under the mutex.
  PendingCall* call_ = nullptr;
};

// What is waited for and has no result.
class Gate final : public FutureBase {
 public:
  // Any thread. Again: nothing happens.
  void Open() {
    Settled settled;
    {
      MutexLock lock(mutex_);
      if (IsSet()) return;
      settled = Settle();
    }
    Tell(settled);
  }
};

// How the current thread waits for futures, where it is not enough to sleep: a handler's thread tells its executor, and
// a simulation runs others meanwhile.
class ThreadWaiter {
 public:
  // OK: `gate` is set. DEADLINE_EXCEEDED: the deadline came first.
  // FAILED_PRECONDITION with CALL_DEADLOCK: it would wait for itself.
  virtual absl::Status Wait(FutureBase& gate, std::span<FutureBase* const> needed, Monotonic deadline) = 0;

  // Of this thread; null: it just sleeps.
  static ThreadWaiter*& Current() {
    static thread_local ThreadWaiter* current = nullptr;
    return current;
  }

 protected:
  ~ThreadWaiter() = default;
};

// Waits until `gate` is set. `needed`: the futures whose answers it cannot be set without.
inline absl::Status WaitFor(FutureBase& gate, std::span<FutureBase* const> needed, Monotonic deadline) {
  if (gate.IsSet()) return absl::OkStatus();
  const Monotonic own = gate.call() == nullptr ? Monotonic::Infinite() : gate.call()->deadline();
  absl::Status waited;
  if (ThreadWaiter* waiter = ThreadWaiter::Current(); waiter != nullptr) {
    waited = waiter->Wait(gate, needed, std::min(deadline, own));
  } else if (!gate.WaitHere(std::min(deadline, own))) {
    waited = absl::DeadlineExceededError("no result yet");
  }
  if (!absl::IsDeadlineExceeded(waited) || deadline < own) return waited;
  gate.call()->Expire();
  return absl::OkStatus();
}

}  // namespace internal
}  // namespace troupe
