// SPDX-License-Identifier: Apache-2.0
// Streams: a method that yields many results, which travel while it goes on.
//
//   troupe::Stream<Row> Rows(int64_t first) {                        // the actor's side: a coroutine
//     for (const Row& row : rows_) co_yield row;                     // waits while the consumer is behind
//     co_return absl::OkStatus();                                    // always; or an error
//   }
//   troupe::StreamReader<Row> rows = store.Stream<&Store::Rows>(0);  // the caller's side
//   while (true) {
//     absl::StatusOr<std::optional<Row>> row = rows.Next().Get();    // or co_await rows.Next()
//     if (!row.ok() || !row->has_value()) break;                     // an error, or the end
//   }
//
// The producer is ahead of the consumer by at most a StreamWindow, in items and in bytes. Cancelling (or dropping) the
// reader destroys the coroutine where it waits in a co_yield, which runs the destructors of its locals. A deadline
// covers the whole stream. Re-entrancy is as of a Task (task.h).
#pragma once

#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/actor/codec.h"
#include "runtime/actor/future.h"
#include "runtime/actor/stream_sink.h"
#include "runtime/actor/task.h"

namespace troupe {

// Of a stream that names none: an hour, since the consumer's time counts too.
inline constexpr absl::Duration kStreamTimeoutDefault = absl::Hours(1);

template <typename T>
class [[nodiscard]] Stream {
 public:
  class promise_type {
   public:
    Stream get_return_object() { return Stream(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept { return Yielded{true}; }
    void unhandled_exception() {
      result_ = internal::ExceptionStatus("the method");
      if (internal::Strand::Current() != nullptr) internal::Strand::Current()->Threw(result_);
    }
    void return_value(absl::Status status) { result_ = std::move(status); }
    auto yield_value(const T& value) { return Yielded{false, sink_->Push(Encode(value))}; }
    template <typename R>
    internal::FutureAwaiter<R> await_transform(Future<R> future) {
      return internal::FutureAwaiter<R>(std::move(future), reentrant_);
    }
    template <typename U>
    internal::TaskAwaiter<U> await_transform(Task<U> task) {
      return internal::TaskAwaiter<U>(std::move(task), reentrant_);
    }

   private:
    friend class Stream;
    struct Yielded {
      bool ended;
      bool go_on = false;
      bool await_ready() noexcept { return go_on; }
      void await_suspend(std::coroutine_handle<promise_type> handle) noexcept { handle.promise().Rest(ended); }
      void await_resume() noexcept {}
    };

    // At a co_yield without credit, or at the end. May destroy the coroutine.
    void Rest(bool ended) {
      if (ended || sink_->cancelled()) return std::exchange(done_, nullptr)(result_);
      sink_->Await([this, strand = internal::Strand::Current()->Share()] {
        strand->Run([this] {
          if (sink_->cancelled()) return Rest(false);
          std::coroutine_handle<promise_type>::from_promise(*this).resume();
        });
      });
    }

    std::shared_ptr<StreamSink> sink_;
    std::function<void(absl::Status)> done_;
    absl::Status result_;
    bool reentrant_ = false;
  };

  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (handle_) handle_.destroy();
  }

  // For the runtime, in an actor's turn: begins the body. `done` runs once, perhaps before Start returns, and may
  // destroy what holds the stream.
  void Start(bool reentrant, std::shared_ptr<StreamSink> sink, std::function<void(absl::Status)> done) {
    handle_.promise().reentrant_ = reentrant;
    handle_.promise().sink_ = std::move(sink);
    handle_.promise().done_ = std::move(done);
    handle_.resume();
  }

 private:
  explicit Stream(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace internal {

// What a reader and its call share: items that wait for the reader, or a reader that waits for an item.
template <typename T>
class StreamBuffer {
 public:
  using Item = absl::StatusOr<std::optional<T>>;

  StreamBuffer(std::shared_ptr<CallRouter> router, StreamWindow window) : router_(std::move(router)), window_(window) {}

  void Push(std::string bytes);
  void End(absl::Status status);
  Future<std::optional<T>> Next();
  void SetCall(uint64_t call);
  void Cancel();

 private:
  Item Take(std::string bytes);

  // Consumed items are granted again in parts of the window, so that not each of them costs a message.
  static constexpr size_t kGrantParts = 4;

  const std::shared_ptr<CallRouter> router_;
  const StreamWindow window_;
  Mutex mutex_;
  StreamWindow consumed_ ABSL_GUARDED_BY(mutex_) = {0, 0};  // Since the last grant.
  uint64_t call_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> items_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  std::optional<Promise<std::optional<T>>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

// The caller's side. One Next at a time. Movable; dropping it cancels the stream.
template <typename T>
class [[nodiscard]] StreamReader {
 public:
  StreamReader() = default;
  explicit StreamReader(std::shared_ptr<internal::StreamBuffer<T>> buffer) : buffer_(std::move(buffer)) {}
  StreamReader(StreamReader&&) noexcept = default;
  StreamReader& operator=(StreamReader&& other) noexcept {
    if (this != &other) Cancel();
    buffer_ = std::move(other.buffer_);
    return *this;
  }
  ~StreamReader() { Cancel(); }

  // The next item; nothing at the end; an error if the stream ended with one (after all items that came before it).
  Future<std::optional<T>> Next() { return buffer_->Next(); }

  // No more is wanted: Next gives what has arrived, then CALL_CANCELLED.
  void Cancel() {
    if (buffer_ != nullptr) buffer_->Cancel();
  }

 private:
  std::shared_ptr<internal::StreamBuffer<T>> buffer_;
};

namespace internal {

template <typename T>
void StreamBuffer<T>::Push(std::string bytes) {
  std::optional<Promise<std::optional<T>>> waiting;
  {
    MutexLock lock(mutex_);
    if (ended_.has_value()) return;
    if (!waiting_.has_value()) return items_.push_back(std::move(bytes));
    waiting = std::exchange(waiting_, std::nullopt);
  }
  waiting->Set(Take(std::move(bytes)));
}

template <typename T>
void StreamBuffer<T>::End(absl::Status status) {
  std::optional<Promise<std::optional<T>>> waiting;
  {
    MutexLock lock(mutex_);
    if (ended_.has_value()) return;
    ended_ = status;
    waiting = std::exchange(waiting_, std::nullopt);
  }
  if (waiting.has_value()) waiting->Set(status.ok() ? Item(std::optional<T>()) : Item(status));
}

template <typename T>
Future<std::optional<T>> StreamBuffer<T>::Next() {
  std::string bytes;
  {
    MutexLock lock(mutex_);
    if (items_.empty()) {
      if (ended_.has_value()) {
        return Future<std::optional<T>>::Of(ended_->ok() ? Item(std::optional<T>()) : Item(*ended_));
      }
      if (waiting_.has_value()) {
        return Future<std::optional<T>>::Of(absl::FailedPreconditionError("another Next of this stream waits"));
      }
      return waiting_.emplace().TakeFuture();
    }
    bytes = std::move(items_.front());
    items_.pop_front();
  }
  return Future<std::optional<T>>::Of(Take(std::move(bytes)));
}

template <typename T>
typename StreamBuffer<T>::Item StreamBuffer<T>::Take(std::string bytes) {
  uint64_t call = 0;
  StreamWindow grant = {0, 0};
  {
    MutexLock lock(mutex_);
    call = call_;
    consumed_.items += 1;
    consumed_.bytes += bytes.size();
    bool due = consumed_.items * kGrantParts >= window_.items || consumed_.bytes * kGrantParts >= window_.bytes;
    if (due && !ended_.has_value()) grant = std::exchange(consumed_, {0, 0});
  }
  if (grant.items > 0) router_->Grant(call, grant.items, grant.bytes);
  absl::StatusOr<T> value = Decode<T>(bytes, router_);
  if (!value.ok()) return value.status();
  return std::optional<T>(*std::move(value));
}

template <typename T>
void StreamBuffer<T>::SetCall(uint64_t call) {
  MutexLock lock(mutex_);
  call_ = call;
}

template <typename T>
void StreamBuffer<T>::Cancel() {
  uint64_t call = 0;
  {
    MutexLock lock(mutex_);
    if (ended_.has_value()) return;
    call = call_;
  }
  if (call != 0) router_->Cancel(call);
}

}  // namespace internal
}  // namespace troupe
