// SPDX-License-Identifier: Apache-2.0
#include "runtime/testing/fiber_set.h"

#include <utility>

#include "runtime/base/check.h"

namespace troupe::testing {

FiberSet::~FiberSet() {
  TROUPE_CHECK(waiting_.empty(), "no task waits when its simulation ends");
  {
    MutexLock lock(mutex_);
    for (Fiber& fiber : fibers_) fiber.quit = true;
    changed_.NotifyAll();
  }
  for (Fiber& fiber : fibers_) fiber.thread.join();
}

void FiberSet::Start(std::function<void()> task) {
  if (idle_.empty()) {
    Fiber& made = fibers_.emplace_back();
    made.thread = std::thread([this, &made] { Run(made); });
    idle_.push_back(&made);
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  fiber->task = std::move(task);
  GiveTurn(*fiber);
}

void FiberSet::GiveTurn(Fiber& fiber) {
  MutexLock lock(mutex_);
  running_ = &fiber;
  fiber.runs = true;
  changed_.NotifyAll();
  changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return !fiber.runs; });
  running_ = nullptr;
}

void FiberSet::Run(Fiber& fiber) {
  while (true) {
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return fiber.runs || fiber.quit; });
      if (fiber.quit) return;
    }
    fiber.task();
    fiber.task = nullptr;
    idle_.push_back(&fiber);
    MutexLock lock(mutex_);
    fiber.runs = false;
    changed_.NotifyAll();
  }
}

void FiberSet::Wait(internal::FutureBase& future, Monotonic deadline) {
  Fiber* fiber = running_;
  TROUPE_CHECK(fiber != nullptr, "only a task waits so");
  waiting_.push_back({&future, deadline});
  waiting_fibers_.push_back(fiber);
  MutexLock lock(mutex_);
  fiber->runs = false;
  changed_.NotifyAll();
  changed_.WaitUntil(lock, Monotonic::Infinite(), [&] { return fiber->runs; });
}

void FiberSet::Resume(size_t index) {
  Fiber* fiber = waiting_fibers_[index];
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
  waiting_fibers_.erase(waiting_fibers_.begin() + static_cast<ptrdiff_t>(index));
  GiveTurn(*fiber);
}

}  // namespace troupe::testing
