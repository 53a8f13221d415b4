// SPDX-License-Identifier: Apache-2.0
// Executor: runs the turns of actors, and timers. ThreadPool is the one of programs; a simulation for tests
// (runtime/actor/testing) has its own, with a clock of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/actor/future_state.h"
#include "runtime/base/callback.h"
#include "runtime/base/monotonic.h"

namespace troupe {

class Executor {
 public:
  virtual ~Executor() = default;

  using Task = Callback<void()>;

  virtual Monotonic Now() const = 0;
  // Whether Now() has come to `deadline`; cheaper where that is far.
  virtual bool Passed(Monotonic deadline) const { return Now() >= deadline; }
  // Any thread. Runs `task` soon; tasks must not throw.
  virtual void Post(Task task) = 0;
  // Any thread. Runs `task` at `when` or soon after. The id is for CancelTimer, which says whether it was in time.
  virtual uint64_t PostAt(Monotonic when, std::function<void()> task) = 0;
  virtual bool CancelTimer(uint64_t id) = 0;
  // Within a task: waits for `future`, while others run. False: the deadline came first.
  virtual bool Wait(internal::FutureBase& future, Monotonic deadline) = 0;
  // Its time and its turns are a test's: nothing may run on threads of its own.
  virtual bool simulated() const { return false; }
};

// What an idle thread of an executor does instead of sleeping: it takes this process' messages, so that nobody has to
// wake it for them.
class IdleWork {
 public:
  virtual ~IdleWork() = default;
  // One thread at a time. Until `done()`, asked after each look, or `deadline`. False: there is nothing to take now, or
  // others do it.
  virtual bool Wait(const std::function<bool()>& done, Monotonic deadline) = 0;
  // Any thread: it asks `done` again.
  virtual void Wake() = 0;
};

struct ThreadPoolOptions {
  int threads = 0;  // 0: as many as the machine has cores.
  // While tasks wait for futures, others run on further threads, up to that many in all; beyond it they queue. 1: all
  // tasks run on one thread, always the same.
  int threads_max = 256;
  // Of one of the idle threads; null: they sleep.
  std::shared_ptr<IdleWork> idle;
};

class ThreadPool : public Executor {
 public:
  explicit ThreadPool(ThreadPoolOptions options = {});
  // Tasks that wait and timers are dropped; the one that runs ends first. May be called by a task.
  ~ThreadPool() override;

  Monotonic Now() const override;
  bool Passed(Monotonic deadline) const override;
  void Post(Task task) override;
  uint64_t PostAt(Monotonic when, std::function<void()> task) override;
  bool CancelTimer(uint64_t id) override;
  bool Wait(internal::FutureBase& future, Monotonic deadline) override;

  int threads() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);
  static void AddThread(const std::shared_ptr<State>& state);
  // With the lock. Whether one that sleeps is to be woken for it.
  bool Add(Task task);
  const std::shared_ptr<State> state_;
};

}  // namespace troupe
