// SPDX-License-Identifier: Apache-2.0
// NoThreads: while it lives the system gives this process no threads, for tests of what then happens.
#pragma once

#include <pthread.h>

namespace troupe::testing {

class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t none;
    pthread_getattr_default_np(&none);
    pthread_attr_setstacksize(&none, kStackBytes);
    pthread_setattr_default_np(&none);
    pthread_attr_destroy(&none);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  // More than there are addresses, so that no thread gets a stack.
  static constexpr size_t kStackBytes = size_t{1} << 50;
  pthread_attr_t before_;
};

}  // namespace troupe::testing
