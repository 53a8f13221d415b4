// SPDX-License-Identifier: Apache-2.0
// Task<T>: what a handler returns that awaits others without blocking its thread.
//
//   troupe::Task<int64_t> Total() {
//     absl::StatusOr<int64_t> a = co_await left_.Call<&Counter::Get>();
//     absl::StatusOr<int64_t> b = co_await right_.Call<&Counter::Get>();
//     if (!a.ok()) co_return a.status();
//     co_return *a + b.value_or(0);
//   }
//
// It runs in its actor's turns, never beside another handler of it, so members need no lock. While it awaits, the actor
// takes no other message, unless the method is marked TROUPE_REENTRANT (actor_macros.h); timers run either way. The
// arguments live as long as the task, also those taken by const reference.
//
// `co_await` takes a Future<R> (gives what Get would) or a Task<U> (gives absl::StatusOr<U>; of Task<void> and
// Task<absl::Status> an absl::Status). `co_return` takes a T or an absl::Status that is an error; Task<void> returns
// nothing, Task<absl::Status> a status. An exception becomes INTERNAL with its text.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/exception_status.h"
#include "runtime/actor/future.h"
#include "runtime/actor/strand.h"

namespace troupe {

template <typename T>
class Task;

namespace internal {

template <typename T>
struct TaskResult {
  using type = absl::StatusOr<T>;
};
template <typename T>
struct TaskResult<absl::StatusOr<T>> {
  using type = absl::StatusOr<T>;
};
template <>
struct TaskResult<void> {
  using type = absl::Status;
};
template <>
struct TaskResult<absl::Status> {
  using type = absl::Status;
};

// `co_await future` in an actor: goes on in the actor's turn.
template <typename R>
class FutureAwaiter {
 public:
  using Result = typename Future<R>::Result;
  // `reentrant`: its actor takes other messages meanwhile, so it holds up nobody.
  FutureAwaiter(Future<R> future, bool reentrant) : future_(std::move(future)), reentrant_(reentrant) {}

  bool await_ready() const { return future_.Ready(); }

  bool await_suspend(std::coroutine_handle<> handle) {
    Strand* strand = Strand::Current();
    if (strand == nullptr) {  // Outside of actors: goes on where the result comes.
      TakeThen([handle] { handle.resume(); });
      return true;
    }
    PendingCall* call = reentrant_ ? nullptr : future_.base()->call();
    if (call != nullptr && call->waited_for() != nullptr) {
      absl::StatusOr<uint64_t> number = strand->BeginAwait(*future_.base());
      if (!number.ok()) {
        call->Cancel();
        result_.emplace(number.status());
        return false;
      }
      TakeThen([handle, strand = strand->Share(), number = *number] {
        strand->EndAwait(number);
        strand->Run([handle] { handle.resume(); });
      });
      return true;
    }
    TakeThen([handle, strand = strand->Share()] { strand->Run([handle] { handle.resume(); }); });
    return true;
  }

  Result await_resume() {
    if (result_.has_value()) return *std::move(result_);
    return future_.Get();
  }

 private:
  template <typename Go>
  void TakeThen(Go go) {
    future_.Then([this, go = std::move(go)](Result result) {
      result_.emplace(std::move(result));
      go();
    });
  }

  Future<R> future_;
  const bool reentrant_;
  std::optional<Result> result_;
};

template <typename T>
class TaskAwaiter;

template <typename T>
class TaskPromiseBase {
 public:
  using Result = typename TaskResult<T>::type;

  Task<T> get_return_object();
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept { return FinalAwaiter{}; }
  void unhandled_exception() {
    absl::Status error = ExceptionStatus("the method");
    if (Strand* strand = Strand::Current(); strand != nullptr) strand->Threw(error);
    result.emplace(std::move(error));
  }
  template <typename R>
  FutureAwaiter<R> await_transform(Future<R> future) {
    return FutureAwaiter<R>(std::move(future), reentrant);
  }
  template <typename U>
  TaskAwaiter<U> await_transform(Task<U> task);

  std::optional<Result> result;
  std::function<void()> done;  // Runs when the body has ended; may destroy the coroutine.
  bool reentrant = false;      // Of a handler that is, or awaited by one.

 private:
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> handle) noexcept {
      std::function<void()> done = std::move(handle.promise().done);
      if (done) done();
    }
    void await_resume() noexcept {}
  };
};

template <typename T>
class TaskPromise : public TaskPromiseBase<T> {
 public:
  template <typename U>
  void return_value(U&& value) {
    this->result.emplace(std::forward<U>(value));
  }
};
template <>
class TaskPromise<void> : public TaskPromiseBase<void> {
 public:
  void return_void() { result.emplace(); }
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::TaskPromise<T>;
  using Result = typename internal::TaskResult<T>::type;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // For the runtime: begins the body; `done` runs once with the result, perhaps before Start returns. Nothing of the
  // task is touched after `done`, which may destroy what holds it.
  void Start(bool reentrant, std::function<void(Result)> done) {
    handle_.promise().reentrant = reentrant;
    handle_.promise().done = [handle = handle_, done = std::move(done)] { done(*std::move(handle.promise().result)); };
    handle_.resume();
  }

 private:
  friend class internal::TaskPromiseBase<T>;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

template <typename T>
Task<T> TaskPromiseBase<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(static_cast<TaskPromise<T>&>(*this)));
}

template <typename T>
class TaskAwaiter {
 public:
  TaskAwaiter(Task<T> task, bool reentrant) : task_(std::move(task)), reentrant_(reentrant) {}
  bool await_ready() const { return false; }
  // False: it ended at once, and its awaiter goes on without a deeper stack.
  bool await_suspend(std::coroutine_handle<> handle) {
    task_.Start(reentrant_, [this, handle](typename Task<T>::Result result) {
      result_.emplace(std::move(result));
      if (suspended_) handle.resume();
    });
    suspended_ = !result_.has_value();
    return suspended_;
  }
  typename Task<T>::Result await_resume() { return *std::move(result_); }

 private:
  Task<T> task_;
  const bool reentrant_;
  std::optional<typename Task<T>::Result> result_;
  bool suspended_ = false;
};

template <typename T>
template <typename U>
TaskAwaiter<U> TaskPromiseBase<T>::await_transform(Task<U> task) {
  return TaskAwaiter<U>(std::move(task), reentrant);
}

}  // namespace internal
}  // namespace troupe
