// SPDX-License-Identifier: Apache-2.0
// StreamSink: where a stream's producer puts its items: it sends them on and keeps count of what the consumer still
// allows. One a call; made by whoever delivers the call (a transport, a simulation).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "runtime/actor/call_router.h"
#include "runtime/base/mutex.h"

namespace troupe {

class StreamSink {
 public:
  StreamSink(ItemCallback send, StreamWindow window)
      : send_(std::move(send)),
        items_left_(static_cast<int64_t>(window.Bounded().items)),
        bytes_left_(static_cast<int64_t>(window.Bounded().bytes)) {}

  // The producer's, in its actor's turn: sends, and whether it may go on now.
  bool Push(std::string item) {
    {
      MutexLock lock(mutex_);
      if (cancelled_) return false;
      items_left_ -= 1;
      bytes_left_ -= static_cast<int64_t>(item.size());
    }
    send_(std::move(item));
    MutexLock lock(mutex_);
    return MayGoOn();
  }

  // The producer's: `wake` runs once when it may go on, or was cancelled; at once on this thread if that is so now.
  void Await(std::function<void()> wake) {
    {
      MutexLock lock(mutex_);
      if (!cancelled_ && !MayGoOn()) {
        wake_ = std::move(wake);
        return;
      }
    }
    wake();
  }

  // Nobody wants more. Any thread.
  bool cancelled() const {
    MutexLock lock(mutex_);
    return cancelled_;
  }

  // The consumer's, any thread. In all it allows no more than the largest window, whatever it says.
  void Grant(size_t items, size_t bytes) {
    std::function<void()> wake;
    {
      MutexLock lock(mutex_);
      items_left_ = Sum(items_left_, items, StreamWindow::kItemsMax);
      bytes_left_ = Sum(bytes_left_, bytes, StreamWindow::kBytesMax);
      if (MayGoOn()) wake = std::exchange(wake_, nullptr);
    }
    if (wake) wake();
  }
  void Cancel() {
    std::function<void()> wake;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      wake = std::exchange(wake_, nullptr);
    }
    if (wake) wake();
  }

 private:
  // `left` may be below zero, by one item.
  static int64_t Sum(int64_t left, size_t more, size_t max) {
    return std::min(left + static_cast<int64_t>(std::min(more, max)), static_cast<int64_t>(max));
  }
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !cancelled_ && items_left_ > 0 && bytes_left_ > 0;
  }

  const ItemCallback send_;
  mutable Mutex mutex_;
  int64_t items_left_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_left_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
