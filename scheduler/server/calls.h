// SPDX-License-Identifier: Apache-2.0
// Calls: requests that wait for the Answer of a step; none of them holds a thread. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "runtime/base/mutex.h"
#include "scheduler/core/events.h"

namespace troupe::scheduler {

class Calls {
 public:
  // Runs once unless it was forgotten: with the answer, on the thread that delivers it, or with UNAVAILABLE, since the
  // head refuses more events (`post` returned false) or ends (whether the call had an effect is not known).
  using Done = std::function<void(Answer)>;

  // Posts the event that `post` makes for a new call. Returns the call's id; `done` may have run already.
  CallId Ask(const std::function<bool(CallId)>& post, Done done) {
    CallId call = 0;
    bool closed = false;
    {
      MutexLock lock(mutex_);
      call = ++last_call_;
      closed = closed_;
      waiting_[call] = std::move(done);
    }
    if (closed || !post(call))
      Complete({call, absl::UnavailableError("the head is overloaded or ends: try again"), {}});
    return call;
  }

  // False: its `done` has run or is running. True: it never will.
  bool Forget(CallId call) {
    MutexLock lock(mutex_);
    return waiting_.erase(call) > 0;
  }

  void Complete(Answer answer) {
    Done done;
    {
      MutexLock lock(mutex_);
      auto it = waiting_.find(answer.call);
      if (it == waiting_.end()) return;  // Forgotten.
      done = std::move(it->second);
      waiting_.erase(it);
    }
    done(std::move(answer));
  }

  void CloseAll() {
    std::map<CallId, Done> waiting;
    {
      MutexLock lock(mutex_);
      closed_ = true;
      waiting.swap(waiting_);
    }
    for (const auto& [call, done] : waiting) {
      done({call, absl::UnavailableError("the head ends before it could answer: ask again"), {}});
    }
  }

 private:
  Mutex mutex_;
  CallId last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<CallId, Done> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
