// SPDX-License-Identifier: Apache-2.0
// FiberSet: tasks of which one runs at a time, each until it ends or waits for a future; then whoever asked goes on. A
// task that waits keeps its stack (a thread that stands still), so others can run and let it go on in any order.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/actor/future_state.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"

namespace troupe::testing {

class FiberSet {
 public:
  struct Waiting {
    internal::FutureBase* future = nullptr;
    Monotonic deadline;
  };

  // No task waits any more.
  ~FiberSet();

  // Not within a task: runs `task` until it ends or waits.
  void Start(std::function<void()> task);
  // Within a task: gives the turn back. Returns when it was resumed.
  void Wait(internal::FutureBase& future, Monotonic deadline);
  // Not within a task. The tasks that wait, in the order in which they began to; Resume by index.
  const std::vector<Waiting>& waiting() const { return waiting_; }
  void Resume(size_t index);

 private:
  struct Fiber {
    std::function<void()> task;
    bool runs = false;  // It has the turn.
    bool quit = false;
    std::thread thread;
  };
  void Run(Fiber& fiber);
  // Hands the turn over and waits until it comes back.
  void GiveTurn(Fiber& fiber);

  Mutex mutex_;
  ConditionVariable changed_;
  std::list<Fiber> fibers_;  // Idle, waiting, and the one that runs.
  std::vector<Fiber*> idle_;
  std::vector<Waiting> waiting_;  // Of waiting_fibers_, in the same order.
  std::vector<Fiber*> waiting_fibers_;
  Fiber* running_ = nullptr;
};

}  // namespace troupe::testing
