// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "runtime/env/errno_status.h"

namespace troupe {
namespace {

constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK;
constexpr size_t kStatBlockBytes = 512;

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::StatusOr<SharedMemory> SharedMemory::Create(const std::string& name, size_t size) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make the shared memory " + name);
  // The pages are taken here: a machine that has too few says so now, and never by a signal later.
  if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0) {
    return ErrnoStatus(errno, "cannot allocate " + std::to_string(size) + " bytes for the shared memory " + name);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "cannot seal the shared memory " + name);
  }
  return MapAll(std::move(fd), size);
}

absl::StatusOr<SharedMemory> SharedMemory::Map(UniqueFd fd, size_t size) {
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return absl::InvalidArgumentError("the descriptor is no memory file");
  if ((seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError("the shared memory is not sealed against growing and shrinking");
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot ask for the size of a shared memory");
  if (info.st_size < 0 || static_cast<size_t>(info.st_size) != size) {
    return absl::InvalidArgumentError("the shared memory has " + std::to_string(info.st_size) + " bytes where " +
                                      std::to_string(size) + " were announced");
  }
  if (static_cast<size_t>(info.st_blocks) * kStatBlockBytes < size) {
    return absl::InvalidArgumentError("the shared memory is not all allocated");
  }
  return MapAll(std::move(fd), size);
}

absl::StatusOr<SharedMemory> SharedMemory::MapAll(UniqueFd fd, size_t size) {
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "cannot map a shared memory of " + std::to_string(size) + " bytes");
  SharedMemory memory;
  memory.fd_ = std::move(fd);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = size;
  return memory;
}

}  // namespace troupe
