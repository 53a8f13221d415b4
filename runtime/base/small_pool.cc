// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/small_pool.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "runtime/base/mutex.h"

namespace troupe {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPools = false;  // So that each use after its end is seen.
#else
constexpr bool kPools = true;
#endif

constexpr size_t kClassBytes = 64;  // Sizes are rounded up to it.
constexpr size_t kClasses = SmallPool::kBytesMax / kClassBytes;
constexpr int kBatch = 32;                  // What goes between threads at once.
constexpr int kFetchAhead = 2;              // Blocks.
constexpr size_t kDepotBytesMax = 1 << 20;  // Of one size, that no thread holds; beyond it memory is freed.

size_t ClassOf(size_t bytes) { return (bytes + kClassBytes - 1) / kClassBytes - 1; }
size_t BytesOf(size_t of_class) { return (of_class + 1) * kClassBytes; }

// Blocks go between threads by their addresses: one that was written last by another processor is touched when it is
// used, and not to find the next.
using Batch = std::array<void*, kBatch>;

// Batches that no thread holds.
class Depot {
 public:
  bool TakeBatch(void** to) {
    MutexLock lock(mutex_);
    if (batches_.empty()) return false;
    std::copy(batches_.back().begin(), batches_.back().end(), to);
    batches_.pop_back();
    return true;
  }
  void GiveBatch(void* const* from, size_t block_bytes) {
    {
      MutexLock lock(mutex_);
      if (batches_.size() * kBatch * block_bytes < kDepotBytesMax) {
        std::copy(from, from + kBatch, batches_.emplace_back().begin());
        return;
      }
    }
    for (int i = 0; i < kBatch; ++i) ::operator delete(from[i]);
  }

 private:
  Mutex mutex_;
  std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);
};

Depot& DepotOf(size_t of_class) {
  static auto* depots = new std::array<Depot, kClasses>;  // Never destroyed: threads may end later.
  return (*depots)[of_class];
}

// The blocks of one size that a thread holds, up to two batches.
struct Shelf {
  int count = 0;
  std::array<void*, size_t{2} * kBatch> blocks;
};

struct Shelves {
  std::array<Shelf, kClasses> of;
  ~Shelves() {
    for (size_t i = 0; i < kClasses; ++i) {
      Shelf& shelf = of[i];
      for (; shelf.count >= kBatch; shelf.count -= kBatch) {
        DepotOf(i).GiveBatch(&shelf.blocks[static_cast<size_t>(shelf.count - kBatch)], BytesOf(i));
      }
      while (shelf.count > 0) ::operator delete(shelf.blocks[static_cast<size_t>(--shelf.count)]);
    }
    gone = true;
  }
  // Of this thread; what it frees later goes straight back.
  inline static thread_local bool gone = false;
};
thread_local Shelves shelves;

// One that is used soon comes while others are.
void Fetch(const void* block, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  for (size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(static_cast<const std::byte*>(block) + at, 1);
}

}  // namespace

void* SmallPool::Take(size_t bytes) {
  if (!kPools || bytes > kBytesMax || bytes == 0 || Shelves::gone) return ::operator new(bytes);
  size_t of_class = ClassOf(bytes);
  Shelf& shelf = shelves.of[of_class];
  if (shelf.count == 0) {
    if (!DepotOf(of_class).TakeBatch(shelf.blocks.data())) return ::operator new(BytesOf(of_class));
    shelf.count = kBatch;
  }
  --shelf.count;
  if (shelf.count >= kFetchAhead) {
    Fetch(shelf.blocks[static_cast<size_t>(shelf.count - kFetchAhead)], BytesOf(of_class));
  }
  return shelf.blocks[static_cast<size_t>(shelf.count)];
}

void SmallPool::Give(void* memory, size_t bytes) noexcept {
  if (!kPools || bytes > kBytesMax || bytes == 0 || Shelves::gone) return ::operator delete(memory);
  size_t of_class = ClassOf(bytes);
  Shelf& shelf = shelves.of[of_class];
  if (shelf.count == 2 * kBatch) {  // The older half goes.
    DepotOf(of_class).GiveBatch(shelf.blocks.data(), BytesOf(of_class));
    std::copy(shelf.blocks.begin() + kBatch, shelf.blocks.end(), shelf.blocks.begin());
    shelf.count = kBatch;
  }
  shelf.blocks[static_cast<size_t>(shelf.count++)] = memory;
}

}  // namespace troupe
