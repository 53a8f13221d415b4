// SPDX-License-Identifier: Apache-2.0
// What a promise and its future share, without the type of the result: whether it is set, who waits, which call it
// answers. Internal to future.h, wait.h and the executors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"

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
  // Waits for `future`, the one that it answers, by taking this process' messages on this thread, so that nobody has to
  // be woken. Returns when it is set, at the deadline, or at once where that cannot be done.
  virtual void WaitReading(FutureBase&, Monotonic) {}
};

class FutureBase {
 public:
  virtual ~FutureBase() = default;

  bool IsSet() const { return set_.load(std::memory_order_acquire); }

  // On this thread, whatever the thread is.
  bool WaitHere(Monotonic deadline) {
    if (call_ != nullptr) call_->WaitReading(*this, deadline);
    MutexLock lock(mutex_);
    return changed_.WaitUntil(lock, deadline, [this] { return IsSet(); });
  }

  // `observer` runs once when the result is there (now, if it is), on the thread that brings it, and takes nothing. The
  // id is for Unobserve, after which it does not begin any more.
  uint64_t Observe(std::function<void()> observer) {
    {
      MutexLock lock(mutex_);
      if (!IsSet()) {
        observers_.emplace_back(++observers_made_, std::move(observer));
        return observers_made_;
      }
    }
    observer();
    return 0;
  }
  void Unobserve(uint64_t id) {
    MutexLock lock(mutex_);
    std::erase_if(observers_, [id](const auto& observer) { return observer.first == id; });
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
  using Observers = std::vector<std::pair<uint64_t, std::function<void()>>>;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::atomic<bool> set_{false};  // Changed under the mutex.
  Observers observers_ ABSL_GUARDED_BY(mutex_);
  Waker* waker_ ABSL_GUARDED_BY(mutex_) = nullptr;

 private:
  uint64_t observers_made_ ABSL_GUARDED_BY(mutex_) = 0;
  PendingCall* call_ = nullptr;
};

// How the current thread waits for futures, where it is not enough to sleep: a handler's thread tells its executor, and
// a simulation runs others meanwhile.
class ThreadWaiter {
 public:
  // OK: `gate` is set. DEADLINE_EXCEEDED: the deadline came first.
  // FAILED_PRECONDITION with CALL_DEADLOCK: it would wait for itself.
  virtual absl::Status Wait(FutureBase& gate, const std::vector<FutureBase*>& needed, Monotonic deadline) = 0;

  // Of this thread; null: it just sleeps.
  static ThreadWaiter*& Current() {
    static thread_local ThreadWaiter* current = nullptr;
    return current;
  }

 protected:
  ~ThreadWaiter() = default;
};

// Waits until `gate` is set. `needed`: the futures whose answers it cannot be set without.
inline absl::Status WaitFor(FutureBase& gate, const std::vector<FutureBase*>& needed, Monotonic deadline) {
  if (gate.IsSet()) return absl::OkStatus();
  if (ThreadWaiter* waiter = ThreadWaiter::Current(); waiter != nullptr) return waiter->Wait(gate, needed, deadline);
  return gate.WaitHere(deadline) ? absl::OkStatus() : absl::DeadlineExceededError("no result yet");
}

}  // namespace internal
}  // namespace troupe
