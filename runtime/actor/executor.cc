// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/executor.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/env/clock.h"

namespace troupe {

struct ThreadPool::State {
  using TimerKey = std::pair<Monotonic, uint64_t>;

  ThreadPoolOptions options;
  Mutex mutex;
  ConditionVariable changed;
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);
  std::map<TimerKey, std::function<void()>> timers ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, Monotonic> timer_times ABSL_GUARDED_BY(mutex);
  uint64_t timers_made ABSL_GUARDED_BY(mutex) = 0;
  int idle ABSL_GUARDED_BY(mutex) = 0;                          // Asleep.
  std::optional<std::thread::id> taker ABSL_GUARDED_BY(mutex);  // The one in options.idle.
  int blocked ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::list<std::thread> threads ABSL_GUARDED_BY(mutex);
  int running ABSL_GUARDED_BY(mutex) = 0;  // Threads that have not ended.

  Monotonic NextTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return timers.empty() ? Monotonic::Infinite() : timers.begin()->first.first;
  }
  // More threads than tasks may use at once: the rest waited for futures and is done with it.
  bool Surplus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return running - blocked > options.threads; }

  bool Wanted(Monotonic next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return stopping || !tasks.empty() || NextTimer() < next || Surplus();
  }
  // It looks by itself when it has taken what there is.
  void WakeTaker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (taker.has_value() && taker != std::this_thread::get_id()) options.idle->Wake();
  }
  // Idles until there is something to do.
  void Idle(MutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;
};

void ThreadPool::State::Idle(MutexLock& lock) {
  Monotonic next = NextTimer();
  if (options.idle != nullptr && !taker.has_value()) {
    taker = std::this_thread::get_id();
    mutex.Unlock();
    bool took = options.idle->Wait(
        [&] {
          MutexLock again(mutex);
          return Wanted(next);
        },
        next);
    mutex.Lock();
    taker.reset();
    if (took || Wanted(next)) return;
  }
  ++idle;
  changed.WaitUntil(lock, next, [&] { return Wanted(next); });
  --idle;
}

ThreadPool::ThreadPool(ThreadPoolOptions options) : state_(std::make_shared<State>()) {
  if (options.threads <= 0) options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.threads_max = std::max(options.threads_max, options.threads);
  state_->options = options;
}

ThreadPool::~ThreadPool() {
  std::list<std::thread> threads;
  std::deque<Task> tasks;  // Destroyed outside the lock.
  std::map<State::TimerKey, std::function<void()>> timers;
  {
    MutexLock lock(state_->mutex);
    state_->stopping = true;
    threads.swap(state_->threads);
    tasks.swap(state_->tasks);
    timers.swap(state_->timers);
    state_->timer_times.clear();
    state_->changed.NotifyAll();
    state_->WakeTaker();
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

Monotonic ThreadPool::Now() const { return MonotonicNow(); }

bool ThreadPool::Passed(Monotonic deadline) const { return HasPassed(deadline); }

void ThreadPool::AddThread(const std::shared_ptr<State>& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  ++state->running;
  state->threads.emplace_back([state] { Run(state); });
}

void ThreadPool::Run(const std::shared_ptr<State>& state) {
  while (true) {
    Task task;
    {
      MutexLock lock(state->mutex);
      while (true) {
        if (state->stopping) return;
        if (!state->timers.empty() && HasPassed(state->NextTimer())) {
          auto timer = state->timers.extract(state->timers.begin());
          state->timer_times.erase(timer.key().second);
          task = std::move(timer.mapped());
          break;
        }
        if (!state->tasks.empty()) {
          task = std::move(state->tasks.front());
          state->tasks.pop_front();
          break;
        }
        if (state->Surplus()) {
          --state->running;
          auto self = std::find_if(state->threads.begin(), state->threads.end(), [](const std::thread& thread) {
            return thread.get_id() == std::this_thread::get_id();
          });
          self->detach();
          state->threads.erase(self);
          return;
        }
        state->Idle(lock);
      }
    }
    task();
  }
}

void ThreadPool::Post(Task task) {
  std::shared_ptr<State> asleep;  // Woken outside the lock, which it takes first; perhaps while the pool ends.
  {
    MutexLock lock(state_->mutex);
    if (Add(std::move(task))) asleep = state_;
  }
  if (asleep != nullptr) asleep->changed.NotifyOne();
}

bool ThreadPool::Add(Task task) {
  if (state_->stopping) return false;
  state_->tasks.push_back(std::move(task));
  state_->WakeTaker();
  // Those that sleep may have been woken for earlier tasks already, and the taker takes one.
  int waiting = static_cast<int>(state_->tasks.size()) - (state_->taker.has_value() ? 1 : 0);
  if (waiting <= 0) return false;
  if (state_->idle >= waiting) return true;
  if (state_->running - state_->blocked < state_->options.threads && state_->running < state_->options.threads_max) {
    AddThread(state_);
  }
  return false;
}

uint64_t ThreadPool::PostAt(Monotonic when, std::function<void()> task) {
  MutexLock lock(state_->mutex);
  if (state_->stopping) return 0;
  uint64_t id = ++state_->timers_made;
  bool soonest = when < state_->NextTimer();
  state_->timers.emplace(State::TimerKey{when, id}, std::move(task));
  state_->timer_times[id] = when;
  bool may_add =
      state_->running - state_->blocked < state_->options.threads && state_->running < state_->options.threads_max;
  bool nobody = state_->idle == 0 && !state_->taker.has_value();
  if (nobody && may_add) AddThread(state_);  // Somebody has to wait for it.
  if (soonest) state_->changed.NotifyAll();
  if (soonest) state_->WakeTaker();
  return id;
}

bool ThreadPool::CancelTimer(uint64_t id) {
  std::function<void()> task;  // Destroyed outside the lock.
  MutexLock lock(state_->mutex);
  auto found = state_->timer_times.find(id);
  if (found == state_->timer_times.end()) return false;
  auto timer = state_->timers.find({found->second, id});
  task = std::move(timer->second);
  state_->timers.erase(timer);
  state_->timer_times.erase(found);
  return true;
}

bool ThreadPool::Wait(internal::FutureBase& future, Monotonic deadline) {
  {
    MutexLock lock(state_->mutex);
    ++state_->blocked;
    bool work = !state_->tasks.empty() || !state_->timers.empty();
    bool nobody = state_->idle == 0 && !state_->taker.has_value();
    if (work && nobody && state_->options.threads_max > state_->running) AddThread(state_);
  }
  bool set = future.WaitHere(deadline);
  MutexLock lock(state_->mutex);
  --state_->blocked;
  if (state_->idle > 0 && state_->Surplus()) state_->changed.NotifyOne();
  if (state_->idle == 0 && state_->Surplus()) state_->WakeTaker();
  return set;
}

int ThreadPool::threads() const {
  MutexLock lock(state_->mutex);
  return state_->running;
}

}  // namespace troupe
