// SPDX-License-Identifier: Apache-2.0
// Memory files: blocks of bytes that processes of one machine share. A MemoryFileWriter fills one and seals it; from
// then on it is a MemoryFile: immutable, for whoever maps it, as the kernel enforces. A PooledFile stays writable for
// the one mapping that its maker has, and for nobody else: its maker may use the memory again. Nothing has a name in
// the file system; the kernel frees the memory with its last holder. What is mapped for reading is safe from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

// A mapping and its end. Internal to the two classes below.
class MappedBytes {
 public:
  MappedBytes() = default;
  MappedBytes(void* data, size_t size) : data_(data), size_(size) {}
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  ~MappedBytes();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

class MemoryFile {
 public:
  // Maps a descriptor that another process sent; all pages are mapped at once, so that reading never faults.
  // INVALID_ARGUMENT: it is no memory file, is empty, or is not sealed against writing, growing and shrinking (its
  // sender could change it, or make reading it a SIGBUS).
  static absl::StatusOr<std::shared_ptr<const MemoryFile>> Map(UniqueFd fd);

  // 4 KiB aligned. Lives as long as the object.
  std::span<const std::byte> bytes() const { return {mapping_.data(), mapping_.size()}; }
  int64_t size() const { return static_cast<int64_t>(mapping_.size()); }
  // For sending to others; stays this object's.
  int fd() const { return fd_.get(); }

 private:
  friend class MemoryFileWriter;
  MemoryFile(UniqueFd fd, MappedBytes mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  MappedBytes mapping_;
};

class MemoryFileWriter {
 public:
  // Allocates all memory now, zeroed and populated. `name` is for people (/proc/PID/maps).
  // RESOURCE_EXHAUSTED: there is not that much memory. INVALID_ARGUMENT: the size is not positive.
  static absl::StatusOr<MemoryFileWriter> Create(const std::string& name, int64_t size);

  // Where to write. 4 KiB aligned.
  std::span<std::byte> bytes() { return {mapping_.data(), mapping_.size()}; }

  // No more writing, for anybody. The writer is used up.
  absl::StatusOr<std::shared_ptr<const MemoryFile>> Seal() &&;

 private:
  MemoryFileWriter(UniqueFd fd, MappedBytes mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  MappedBytes mapping_;
};

class PooledFile {
 public:
  // Allocated, zeroed and populated, then sealed: nobody can grow or shrink it, nor get another writable mapping.
  // Errors as of MemoryFileWriter::Create.
  static absl::StatusOr<PooledFile> Create(const std::string& name, int64_t size);

  std::byte* data() const { return mapping_.data(); }
  int64_t size() const { return static_cast<int64_t>(mapping_.size()); }
  int fd() const { return fd_.get(); }

 private:
  PooledFile(UniqueFd fd, MappedBytes mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  MappedBytes mapping_;
};

// Another process' PooledFile, read-only. Pages are mapped when they are first read, so that mapping a large file is
// quick; the memory is there, so reading never fails.
class PooledView {
 public:
  // INVALID_ARGUMENT: the descriptor is not sealed as PooledFile does it.
  static absl::StatusOr<std::shared_ptr<const PooledView>> Map(UniqueFd fd);

  const std::byte* data() const { return mapping_.data(); }
  int64_t size() const { return static_cast<int64_t>(mapping_.size()); }
  int fd() const { return fd_.get(); }

 private:
  PooledView(UniqueFd fd, MappedBytes mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  MappedBytes mapping_;
};

// The size of a pooled file, without mapping it; errors as of PooledView::Map.
absl::StatusOr<int64_t> PooledSize(int fd);

// The size of a sealed memory file, without mapping it; errors as of MemoryFile::Map.
absl::StatusOr<int64_t> SealedSize(int fd);

}  // namespace troupe
