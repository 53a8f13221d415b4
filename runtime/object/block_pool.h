// SPDX-License-Identifier: Apache-2.0
// BlockPool: the memory of a process' own objects: pooled files (memory_file.h), each cut into blocks of one size. A
// block that was given back is used again, so that its pages are touched for the first time only once; a file without a
// block in use is kept for a while of bytes, then given back whole. Not thread-safe.
//
// A file begins with a header of one word a block (whole pages of it), which holds the sequence number of the block's
// object while its owner has a ref to it, else 0: who maps the file knows by it that what it reads is what it wants.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/object/memory_file.h"

namespace troupe {

struct ObjectBlock {
  uint32_t file = 0;
  uint32_t index = 0;
  int64_t offset = 0;  // In the file; a multiple of 64, of 4096 for blocks of a page or more.
  std::byte* data = nullptr;
  std::atomic<uint64_t>* word = nullptr;
};

// The word of a block in a mapped file; null: the file has no such word.
const std::atomic<uint64_t>* ObjectWord(const std::byte* file, int64_t file_bytes, uint32_t block);

class BlockPool {
 public:
  // Files of small blocks; larger blocks have a file of their own.
  static constexpr int64_t kFileBytes = 16 << 20;
  static constexpr int64_t kBlockBytesMin = 1 << 10;

  // A block of at least `bytes`; nullopt: there is none, add a file of FileBytes(bytes).
  std::optional<ObjectBlock> Allocate(int64_t bytes);
  // Of more than a page, at most a sixteenth more than `bytes` or a page.
  static int64_t BlockBytes(int64_t bytes);
  static int64_t FileBytes(int64_t bytes);
  void AddFile(uint32_t number, PooledFile file, int64_t bytes);
  void Free(uint32_t file, uint32_t index);

  // Removes files without a block in use until at most `keep_bytes` of such are left, and returns their numbers.
  std::vector<uint32_t> Trim(int64_t keep_bytes);

  // Null when there is no such file.
  const PooledFile* Find(uint32_t file) const;
  std::vector<uint32_t> Files() const;
  int64_t bytes() const { return bytes_; }            // Of all files.
  int64_t idle_bytes() const { return idle_bytes_; }  // Of those without a block in use.

 private:
  struct File {
    PooledFile memory;
    int64_t block_bytes = 0;
    std::vector<uint32_t> free;
    uint32_t blocks = 0;
    bool idle() const { return free.size() == blocks; }
  };
  static int64_t HeaderBytes(int64_t blocks);

  std::map<uint32_t, File> files_;
  std::map<int64_t, std::set<uint32_t>> with_free_;  // By block size; files that have a free block.
  int64_t bytes_ = 0;
  int64_t idle_bytes_ = 0;
};

}  // namespace troupe
