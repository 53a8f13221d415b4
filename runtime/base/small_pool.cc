// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/small_pool.h"

#include <array>
#include <utility>
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
constexpr size_t kDepotBytesMax = 1 << 20;  // Of one size, that no thread holds; beyond it memory is freed.

struct Block {
  Block* next = nullptr;
};

size_t ClassOf(size_t bytes) { return (bytes + kClassBytes - 1) / kClassBytes - 1; }
size_t BytesOf(size_t of_class) { return (of_class + 1) * kClassBytes; }

void Free(Block* blocks) {
  while (blocks != nullptr) ::operator delete(std::exchange(blocks, blocks->next));
}

// The next block, which another processor may have written last, comes while this one is used.
void Fetch(const void* block, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  for (size_t at = 0; block != nullptr && at < bytes; at += kLineBytes) {
    __builtin_prefetch(static_cast<const std::byte*>(block) + at, 1);
  }
}

// Batches that no thread holds.
class Depot {
 public:
  Block* TakeBatch() {
    MutexLock lock(mutex_);
    if (batches_.empty()) return nullptr;
    Block* batch = batches_.back();
    batches_.pop_back();
    return batch;
  }
  void GiveBatch(Block* batch, size_t block_bytes) {
    {
      MutexLock lock(mutex_);
      if (batches_.size() * kBatch * block_bytes < kDepotBytesMax) return batches_.push_back(batch);
    }
    Free(batch);
  }

 private:
  Mutex mutex_;
  std::vector<Block*> batches_ ABSL_GUARDED_BY(mutex_);
};

Depot& DepotOf(size_t of_class) {
  static auto* depots = new std::array<Depot, kClasses>;  // Never destroyed: threads may end later.
  return (*depots)[of_class];
}

// The blocks of one size that a thread holds: those that it takes from, and a batch that is being filled.
struct Shelf {
  Block* blocks = nullptr;
  int count = 0;
  Block* full = nullptr;  // A batch, or null.
};

struct Shelves {
  std::array<Shelf, kClasses> of;
  ~Shelves() {
    for (size_t i = 0; i < kClasses; ++i) {
      Free(of[i].blocks);
      if (of[i].full != nullptr) DepotOf(i).GiveBatch(of[i].full, BytesOf(i));
    }
    gone = true;
  }
  // Of this thread; what it frees later goes straight back.
  inline static thread_local bool gone = false;
};
thread_local Shelves shelves;

Block* Refill(size_t of_class, Shelf& shelf) {
  Block* blocks = std::exchange(shelf.full, nullptr);
  if (blocks == nullptr) blocks = DepotOf(of_class).TakeBatch();
  if (blocks == nullptr) return static_cast<Block*>(::operator new(BytesOf(of_class)));
  shelf.blocks = blocks->next;
  shelf.count = kBatch - 1;
  return blocks;
}

}  // namespace

void* SmallPool::Take(size_t bytes) {
  if (!kPools || bytes > kBytesMax || bytes == 0 || Shelves::gone) return ::operator new(bytes);
  size_t of_class = ClassOf(bytes);
  Shelf& shelf = shelves.of[of_class];
  Block* block = shelf.blocks;
  if (block == nullptr) return Refill(of_class, shelf);
  shelf.blocks = block->next;
  --shelf.count;
  Fetch(shelf.blocks, BytesOf(of_class));
  return block;
}

void SmallPool::Give(void* memory, size_t bytes) noexcept {
  if (!kPools || bytes > kBytesMax || bytes == 0 || Shelves::gone) return ::operator delete(memory);
  size_t of_class = ClassOf(bytes);
  Shelf& shelf = shelves.of[of_class];
  if (shelf.count == kBatch) {
    if (shelf.full != nullptr) DepotOf(of_class).GiveBatch(shelf.full, BytesOf(of_class));
    shelf.full = std::exchange(shelf.blocks, nullptr);
    shelf.count = 0;
  }
  shelf.blocks = new (memory) Block{shelf.blocks};
  ++shelf.count;
}

}  // namespace troupe
