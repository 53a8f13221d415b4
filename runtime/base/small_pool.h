// SPDX-License-Identifier: Apache-2.0
// SmallPool: memory for small things that one thread makes and another one ends, many times a second. A thread keeps
// some blocks; those that pile up where they end go back by batches to where they are needed, so that neither side
// takes a lock for each. Larger things, and everything under a sanitizer, come from operator new.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace troupe {

class SmallPool {
 public:
  static constexpr size_t kBytesMax = 1024;

  // Any thread. Give has the same size.
  static void* Take(size_t bytes);
  static void Give(void* block, size_t bytes) noexcept;
};

// For std::allocate_shared.
template <typename T>
struct SmallAllocator {
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t));

  SmallAllocator() = default;
  template <typename U>
  SmallAllocator(const SmallAllocator<U>&) {}  // NOLINT: rebinding.
  T* allocate(size_t n) { return static_cast<T*>(SmallPool::Take(n * sizeof(T))); }
  void deallocate(T* block, size_t n) noexcept { SmallPool::Give(block, n * sizeof(T)); }
  template <typename U>
  bool operator==(const SmallAllocator<U>&) const {
    return true;
  }
};

// A base of classes whose objects are made by new.
struct SmallPooled {
  static void* operator new(size_t bytes) { return SmallPool::Take(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { SmallPool::Give(block, bytes); }
};

template <typename T, typename... Args>
std::shared_ptr<T> MakePooled(Args&&... args) {
  return std::allocate_shared<T>(SmallAllocator<T>(), std::forward<Args>(args)...);
}

}  // namespace troupe
