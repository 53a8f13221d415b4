// SPDX-License-Identifier: Apache-2.0
// What a promise and its future share, without the type of the result: whether it is set, who waits, which call it
// answers. Internal to future.h, wait.h and the executors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"

namespace troupe {

struct ActorLife;

namespace internal {

// The call that a future answers. `waited_for` lets an actor that waits find out that it waits for itself; it is null
// where the answer does not need the callee's turn (methods that return a Future).
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual void Cancel() = 0;
  virtual const ActorLife* waited_for() const = 0;
};

class FutureBase {
 public:
  virtual ~FutureBase() = default;

  bool IsSet() const {
    MutexLock lock(mutex_);
    return set_;
  }

  // On this thread's condition variable, whatever the thread is.
  bool WaitHere(Monotonic deadline) {
    MutexLock lock(mutex_);
    return changed_.WaitUntil(lock, deadline, [this] { return set_; });
  }

  // `observer` runs once when the result is there (now, if it is), on the thread that brings it, and takes nothing. The
  // id is for Unobserve, after which it does not begin any more.
  uint64_t Observe(std::function<void()> observer) {
    {
      MutexLock lock(mutex_);
      if (!set_) {
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

  // Before the state is shared.
  void SetCall(std::shared_ptr<PendingCall> call) { call_ = std::move(call); }
  PendingCall* call() const { return call_.get(); }

 protected:
  using Observers = std::vector<std::pair<uint64_t, std::function<void()>>>;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
  Observers observers_ ABSL_GUARDED_BY(mutex_);

 private:
  uint64_t observers_made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<PendingCall> call_;
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
