// SPDX-License-Identifier: Apache-2.0
// A whole file mapped into memory, read-only.
#include "runtime/env/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // O_NONBLOCK: a pipe must not hang
  if (fd.get() < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {  // an empty file cannot be mapped, and need not be
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("cannot map ", path));
  }
  return std::unique_ptr<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace troupe
