// SPDX-License-Identifier: Apache-2.0
// Mutex, MutexLock and ConditionVariable: std::mutex on the steady clock with Clang's thread-safety annotations.
// (absl::Mutex's timed waits follow the wall clock in some builds; these never do.)
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "runtime/base/monotonic.h"

namespace troupe {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex for its own life.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

class ConditionVariable {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  // Waits until `predicate()` holds (true) or `deadline` has passed (false). There is no wait without a deadline.
  template <typename Predicate>
  bool WaitUntil(MutexLock& lock, Monotonic deadline, Predicate predicate) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // wait_until with a far time point overflows inside some standard libraries: bound each wait.
    while (!predicate()) {
      auto now = std::chrono::steady_clock::now();
      if (now >= deadline.ToSteady()) return false;
      auto slice = std::min(deadline.ToSteady(), now + std::chrono::hours(1));
      condition_.wait_until(lock.lock_, slice);
    }
    return true;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace troupe
