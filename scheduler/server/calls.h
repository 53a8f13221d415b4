// SPDX-License-Identifier: Apache-2.0
// Calls: requests that wait for the Answer of a step. Thread-safe.
#pragma once

#include <functional>
#include <map>

#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"
#include "scheduler/core/events.h"

namespace troupe::scheduler {

class Calls {
 public:
  // Posts the event made for a new call id and waits for its answer. UNAVAILABLE: `post` refused, or CloseAll (whether
  // it had an effect is not known); DEADLINE_EXCEEDED likewise.
  Answer Ask(const std::function<bool(CallId)>& post, Monotonic deadline) {
    MutexLock lock(mutex_);
    CallId call = ++last_call_;
    Waiting& waiting = waiting_[call];
    if (closed_ || !post(call)) {
      waiting_.erase(call);
      return {call, absl::UnavailableError("the head is overloaded or ends: try again"), {}};
    }
    bool answered = changed_.WaitUntil(lock, deadline, [&] { return waiting.answered || closed_; });
    Answer answer = std::move(waiting.answer);
    if (!waiting.answered) {
      answer.status = answered ? absl::UnavailableError("the head ends before it could answer: ask again")
                               : absl::DeadlineExceededError("the head has not decided in time: ask again");
    }
    waiting_.erase(call);
    return answer;
  }

  void Complete(Answer answer) {
    MutexLock lock(mutex_);
    auto it = waiting_.find(answer.call);
    if (it == waiting_.end()) return;  // Its deadline passed.
    it->second = {true, std::move(answer)};
    changed_.NotifyAll();
  }

  void CloseAll() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  struct Waiting {
    bool answered = false;
    Answer answer;
  };
  Mutex mutex_;
  ConditionVariable changed_;
  CallId last_call_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<CallId, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe::scheduler
