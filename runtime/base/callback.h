// SPDX-License-Identifier: Apache-2.0
// Callback: a std::function that keeps what it calls within itself, if that has at most 48 bytes, so that making one
// allocates nothing (libstdc++'s std::function allocates for any shared_ptr).
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace troupe {

template <typename Signature>
class Callback;

template <typename R, typename... Args>
class Callback<R(Args...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}  // NOLINT: as std::function.
  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, Callback> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      Callback(F&& f) {  // NOLINT: as std::function.
    using Stored = std::decay_t<F>;
    if constexpr (kFits<Stored>) {
      new (bytes_) Stored(std::forward<F>(f));
      operations_ = &kInline<Stored>;
    } else {
      using Held = std::shared_ptr<Stored>;
      new (bytes_) Held(std::make_shared<Stored>(std::forward<F>(f)));
      operations_ = &kHeld<Stored>;
    }
  }
  Callback(const Callback& other) : operations_(other.operations_) {
    if (operations_ != nullptr) operations_->copy(other.bytes_, bytes_);
  }
  Callback(Callback&& other) noexcept : operations_(std::exchange(other.operations_, nullptr)) {
    if (operations_ != nullptr) operations_->move(other.bytes_, bytes_);
  }
  Callback& operator=(Callback&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(other.bytes_, bytes_);
    return *this;
  }
  Callback& operator=(const Callback& other) { return *this = Callback(other); }
  ~Callback() { Reset(); }

  explicit operator bool() const { return operations_ != nullptr; }
  // Not of an empty one.
  R operator()(Args... args) const { return operations_->call(bytes_, std::forward<Args>(args)...); }

 private:
  static constexpr size_t kBytes = 48;
  template <typename F>
  static constexpr bool kFits = sizeof(F) <= kBytes &&
                                alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  struct Operations {
    R (*call)(std::byte* self, Args&&... args);
    void (*copy)(std::byte* from, std::byte* to);
    void (*move)(std::byte* from, std::byte* to);  // Destroys `from`.
    void (*destroy)(std::byte* self);
  };
  template <typename T>
  static T& As(std::byte* bytes) {
    return *std::launder(reinterpret_cast<T*>(bytes));
  }
  template <typename T>
  static void Copy(std::byte* from, std::byte* to) {
    new (to) T(As<T>(from));
  }
  template <typename T>
  static void Move(std::byte* from, std::byte* to) {
    new (to) T(std::move(As<T>(from)));
    As<T>(from).~T();
  }
  template <typename T>
  static void Destroy(std::byte* self) {
    As<T>(self).~T();
  }
  template <typename F>
  static constexpr Operations kInline = {
      [](std::byte* self, Args&&... args) -> R { return static_cast<R>(As<F>(self)(std::forward<Args>(args)...)); },
      &Copy<F>, &Move<F>, &Destroy<F>};
  // Copies share what is called: it is not changed by being called, or does not mind.
  template <typename F>
  static constexpr Operations kHeld = {
      [](std::byte* self, Args&&... args) -> R {
        return static_cast<R>((*As<std::shared_ptr<F>>(self))(std::forward<Args>(args)...));
      },
      &Copy<std::shared_ptr<F>>, &Move<std::shared_ptr<F>>, &Destroy<std::shared_ptr<F>>};

  void Reset() {
    if (operations_ != nullptr) std::exchange(operations_, nullptr)->destroy(bytes_);
  }

  const Operations* operations_ = nullptr;
  alignas(void*) mutable std::byte bytes_[kBytes];
};

}  // namespace troupe
