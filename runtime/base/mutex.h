// SPDX-License-Identifier: Apache-2.0
// Mutex, MutexLock and ConditionVariable: POSIX ones on the steady clock, with Clang's thread-safety annotations.
// (absl::Mutex's timed waits follow the wall clock in some builds; these never do. std::mutex cannot be an adaptive
// one.)
#pragma once

#include <pthread.h>

#include <cerrno>
#include <ctime>

#include "absl/base/thread_annotations.h"
#include "runtime/base/monotonic.h"

namespace troupe {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { pthread_mutex_lock(&mutex_); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { pthread_mutex_unlock(&mutex_); }

 private:
  friend class ConditionVariable;
  // Adaptive: who finds it held looks again for a fraction of a microsecond before it sleeps. What is held here is held
  // for less than that, and a sleep costs both sides many times as much.
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

// Holds the mutex for its own life.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  friend class ConditionVariable;
  Mutex& mutex_;
};

class ConditionVariable {
 public:
  ConditionVariable() = default;
  ~ConditionVariable() { pthread_cond_destroy(&condition_); }  // Waits for those that were just woken to have left it.
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;

  void NotifyOne() { pthread_cond_signal(&condition_); }
  void NotifyAll() { pthread_cond_broadcast(&condition_); }

  // Waits until `predicate()` holds (true) or `deadline` has passed (false). No wait is without a deadline; an
  // infinite one is for what another thread always ends.
  template <typename Predicate>
  bool WaitUntil(MutexLock& lock, Monotonic deadline, Predicate predicate) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (deadline.infinite()) {  // A timer that is armed and taken back costs a microsecond.
      while (!predicate()) pthread_cond_wait(&condition_, &lock.mutex_.mutex_);
      return true;
    }
    constexpr int64_t kSecond = 1'000'000'000;
    int64_t nanoseconds = deadline.nanoseconds() < 0 ? 0 : deadline.nanoseconds();
    const timespec until = {nanoseconds / kSecond, nanoseconds % kSecond};
    while (!predicate()) {
      if (pthread_cond_clockwait(&condition_, &lock.mutex_.mutex_, CLOCK_MONOTONIC, &until) == ETIMEDOUT) {
        return predicate();
      }
    }
    return true;
  }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace troupe
