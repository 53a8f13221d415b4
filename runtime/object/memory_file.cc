// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/memory.h"

namespace troupe {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
constexpr int kPooledSeals = F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;

absl::StatusOr<MappedBytes> MapAll(int fd, size_t size, int protection, int populate = MAP_POPULATE) {
  void* data = ::mmap(nullptr, size, protection, MAP_SHARED | populate, fd, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "cannot map a memory file of " + std::to_string(size) + " bytes");
  return MappedBytes(data, size);
}

absl::StatusOr<int64_t> SizeOf(int fd, int seals_wanted, const char* what) {
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return absl::InvalidArgumentError("the descriptor is no memory file");
  if ((seals & seals_wanted) != seals_wanted) {
    return absl::InvalidArgumentError(std::string("the memory file is not sealed against ") + what);
  }
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot ask for the size of a memory file");
  if (info.st_size <= 0) return absl::InvalidArgumentError("the memory file is empty");
  return info.st_size;
}

// All its memory, zeroed and populated, writable.
absl::StatusOr<std::pair<UniqueFd, MappedBytes>> Allocate(const std::string& name, int64_t size) {
  if (size <= 0) return absl::InvalidArgumentError("a memory file has at least one byte");
  // fallocate(2) itself only fails after it has taken all there is.
  if (int64_t available = AvailableMemoryBytes(); size > available) {
    return absl::ResourceExhaustedError("the memory file " + name + " needs " + std::to_string(size) +
                                        " bytes of memory, and " + std::to_string(available) + " are left");
  }
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make the memory file " + name);
  // The pages are taken here: a machine that has too few says so now, and never by a signal later.
  if (::fallocate(fd.get(), 0, 0, size) != 0) {
    std::string what = "cannot allocate " + std::to_string(size) + " bytes for the memory file " + name;
    if (errno == ENOSPC || errno == ENOMEM || errno == EFBIG) return absl::ResourceExhaustedError(what);
    return ErrnoStatus(errno, what);
  }
  TROUPE_ASSIGN_OR_RETURN(MappedBytes mapping, MapAll(fd.get(), static_cast<size_t>(size), PROT_READ | PROT_WRITE));
  return std::make_pair(std::move(fd), std::move(mapping));
}

}  // namespace

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedBytes::~MappedBytes() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::StatusOr<int64_t> SealedSize(int fd) { return SizeOf(fd, kSeals, "writing, growing and shrinking"); }

absl::StatusOr<int64_t> PooledSize(int fd) { return SizeOf(fd, kPooledSeals, "new writers, growing and shrinking"); }

absl::StatusOr<std::shared_ptr<const MemoryFile>> MemoryFile::Map(UniqueFd fd) {
  TROUPE_ASSIGN_OR_RETURN(int64_t size, SealedSize(fd.get()));
  TROUPE_ASSIGN_OR_RETURN(MappedBytes mapping, MapAll(fd.get(), static_cast<size_t>(size), PROT_READ));
  return std::shared_ptr<const MemoryFile>(new MemoryFile(std::move(fd), std::move(mapping)));
}

absl::StatusOr<MemoryFileWriter> MemoryFileWriter::Create(const std::string& name, int64_t size) {
  TROUPE_ASSIGN_OR_RETURN(auto allocated, Allocate(name, size));
  return MemoryFileWriter(std::move(allocated.first), std::move(allocated.second));
}

absl::StatusOr<std::shared_ptr<const MemoryFile>> MemoryFileWriter::Seal() && {
  { MappedBytes ended = std::move(mapping_); }  // The kernel refuses the seal while somebody may write.
  if (::fcntl(fd_.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "cannot seal a memory file");
  }
  return MemoryFile::Map(std::move(fd_));
}

absl::StatusOr<PooledFile> PooledFile::Create(const std::string& name, int64_t size) {
  TROUPE_ASSIGN_OR_RETURN(auto allocated, Allocate(name, size));
  if (::fcntl(allocated.first.get(), F_ADD_SEALS, kPooledSeals | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "cannot seal a memory file");
  }
  return PooledFile(std::move(allocated.first), std::move(allocated.second));
}

absl::StatusOr<std::shared_ptr<const PooledView>> PooledView::Map(UniqueFd fd) {
  TROUPE_ASSIGN_OR_RETURN(int64_t size, PooledSize(fd.get()));
  TROUPE_ASSIGN_OR_RETURN(MappedBytes mapping, MapAll(fd.get(), static_cast<size_t>(size), PROT_READ, 0));
  return std::shared_ptr<const PooledView>(new PooledView(std::move(fd), std::move(mapping)));
}

}  // namespace troupe
