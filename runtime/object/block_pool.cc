// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/block_pool.h"

#include <algorithm>
#include <bit>

#include "runtime/base/check.h"

namespace troupe {
namespace {

constexpr int64_t kPage = 4096;
static_assert(sizeof(std::atomic<uint64_t>) == 8 && std::atomic<uint64_t>::is_always_lock_free);

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

const std::atomic<uint64_t>* ObjectWord(const std::byte* file, int64_t file_bytes, uint32_t block) {
  if ((static_cast<int64_t>(block) + 1) * 8 > file_bytes) return nullptr;
  return reinterpret_cast<const std::atomic<uint64_t>*>(file) + block;
}

int64_t BlockPool::BlockBytes(int64_t bytes) {
  bytes = std::max(bytes, kBlockBytesMin);
  auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  if (power <= 2 * kPage) return power;
  // Sixteen sizes between two powers of two.
  return RoundUp(bytes, std::max(power / 32, kPage));
}

int64_t BlockPool::HeaderBytes(int64_t blocks) { return RoundUp(blocks * 8, kPage); }

int64_t BlockPool::FileBytes(int64_t bytes) {
  int64_t block = BlockBytes(bytes);
  int64_t blocks = std::max<int64_t>(kFileBytes / block, 1);
  return HeaderBytes(blocks) + blocks * block;
}

std::optional<ObjectBlock> BlockPool::Allocate(int64_t bytes) {
  int64_t block_bytes = BlockBytes(bytes);
  auto found = with_free_.find(block_bytes);
  if (found == with_free_.end()) return std::nullopt;
  uint32_t number = *found->second.begin();  // The lowest file, so that high ones become idle.
  File& file = files_.at(number);
  if (file.idle()) idle_bytes_ -= file.memory.size();
  ObjectBlock block{number, file.free.back()};
  file.free.pop_back();
  if (file.free.empty()) {
    found->second.erase(number);
    if (found->second.empty()) with_free_.erase(found);
  }
  block.offset = HeaderBytes(file.blocks) + block.index * block_bytes;
  block.data = file.memory.data() + block.offset;
  block.word = reinterpret_cast<std::atomic<uint64_t>*>(file.memory.data()) + block.index;
  return block;
}

void BlockPool::AddFile(uint32_t number, PooledFile memory, int64_t bytes) {
  File file{std::move(memory), BlockBytes(bytes)};
  file.blocks = static_cast<uint32_t>(std::max<int64_t>(kFileBytes / file.block_bytes, 1));
  TROUPE_CHECK(file.memory.size() == FileBytes(bytes), "a file of the size that was asked for");
  for (uint32_t i = file.blocks; i > 0; --i) file.free.push_back(i - 1);
  bytes_ += file.memory.size();
  idle_bytes_ += file.memory.size();
  with_free_[file.block_bytes].insert(number);
  files_.emplace(number, std::move(file));
}

void BlockPool::Free(uint32_t number, uint32_t index) {
  File& file = files_.at(number);
  TROUPE_CHECK(index < file.blocks && file.free.size() < file.blocks, "a block of this pool, in use");
  file.free.push_back(index);
  with_free_[file.block_bytes].insert(number);
  if (file.idle()) idle_bytes_ += file.memory.size();
}

std::vector<uint32_t> BlockPool::Trim(int64_t keep_bytes) {
  std::vector<uint32_t> removed;
  for (auto it = files_.rbegin(); it != files_.rend() && idle_bytes_ > keep_bytes; ++it) {
    if (!it->second.idle()) continue;
    removed.push_back(it->first);
    idle_bytes_ -= it->second.memory.size();
    bytes_ -= it->second.memory.size();
    auto found = with_free_.find(it->second.block_bytes);
    found->second.erase(it->first);
    if (found->second.empty()) with_free_.erase(found);
  }
  for (uint32_t number : removed) files_.erase(number);
  return removed;
}

const PooledFile* BlockPool::Find(uint32_t file) const {
  auto found = files_.find(file);
  return found == files_.end() ? nullptr : &found->second.memory;
}

std::vector<uint32_t> BlockPool::Files() const {
  std::vector<uint32_t> numbers;
  for (const auto& [number, file] : files_) numbers.push_back(number);
  return numbers;
}

}  // namespace troupe
