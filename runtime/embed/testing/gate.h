// SPDX-License-Identifier: Apache-2.0
// Gate: where code under test waits until its test lets it go on.
#pragma once

#include "runtime/base/check.h"
#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"

namespace troupe_test {

// Open at first. Safe from any thread.
class Gate {
 public:
  void Close() {
    troupe::MutexLock lock(mutex_);
    open_ = false;
  }
  void Open() {
    troupe::MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

  // For the code under test.
  void Pass() {
    troupe::MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    TROUPE_CHECK(changed_.WaitUntil(lock, Limit(), [this] { return open_; }), "a test left its gate closed");
    --waiting_;
  }
  // For the test. False: they do not come.
  bool AwaitWaiting(int count = 1) {
    troupe::MutexLock lock(mutex_);
    return changed_.WaitUntil(lock, Limit(), [&] { return waiting_ == count; });
  }

 private:
  static troupe::Monotonic Limit() { return troupe::MonotonicNow() + absl::Seconds(60); }

  troupe::Mutex mutex_;
  troupe::ConditionVariable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

}  // namespace troupe_test
