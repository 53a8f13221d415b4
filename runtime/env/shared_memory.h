// SPDX-License-Identifier: Apache-2.0
// SharedMemory: memory that two processes write (a memfd without a name in the file system, sealed against growing and
// shrinking, so that its other holder cannot make an access a SIGBUS).
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

class SharedMemory {
 public:
  // Owns nothing; for members that are assigned later.
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Allocated and zeroed now, so that no access fails; each process maps a page when it first touches it, as to map a
  // ring's 256 pages at once costs a new connection a tenth of what a new process takes. `name` is for people
  // (/proc/PID/maps). RESOURCE_EXHAUSTED: no memory left.
  static absl::StatusOr<SharedMemory> Create(const std::string& name, size_t size);
  // Maps what another process made. INVALID_ARGUMENT: it is no memory file, it is not sealed against growing and
  // shrinking, its size is not `size`, or its memory is not all allocated.
  static absl::StatusOr<SharedMemory> Map(UniqueFd fd, size_t size);

  // Aligned to pages.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // For sending to the other process; stays this object's.
  int fd() const { return fd_.get(); }
  // The memory stays mapped without it.
  UniqueFd TakeDescriptor() { return std::move(fd_); }

 private:
  static absl::StatusOr<SharedMemory> MapAll(UniqueFd fd, size_t size);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace troupe
