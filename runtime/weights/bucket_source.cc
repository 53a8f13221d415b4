// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/bucket_source.h"

#include <utility>

namespace troupe {

void BucketSource::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  if (end_pull_) end_pull_();
  changed_.NotifyAll();
}

bool BucketSource::WaitCancelled(Monotonic until) {
  MutexLock lock(mutex_);
  return changed_.WaitUntil(lock, until, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return cancelled_; });
}

bool BucketSource::BeginPull(std::function<void()> end) {
  MutexLock lock(mutex_);
  if (!cancelled_) end_pull_ = std::move(end);
  return !cancelled_;
}

void BucketSource::EndPull() {
  MutexLock lock(mutex_);
  end_pull_ = nullptr;
}

}  // namespace troupe
