// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/env/errno_status.h"

namespace troupe {

absl::StatusOr<AppendFile> AppendFile::Open(const std::string& path, uint32_t mode) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open " + path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot ask for the size of " + path);
  return AppendFile(std::move(fd), path, info.st_size);
}

absl::Status AppendFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot append to " + path_);
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AppendFile::Sync() {
  if (::fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "cannot sync " + path_);
  return absl::OkStatus();
}

absl::Status AppendFile::Truncate(int64_t size) {
  if (::ftruncate(fd_.get(), size) != 0) return ErrnoStatus(errno, "cannot cut " + path_);
  size_ = size;
  return absl::OkStatus();
}

absl::Status AppendFile::ReadAt(int64_t offset, int64_t count, char* out) const {
  while (count > 0) {
    ssize_t got = ::pread(fd_.get(), out, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read " + path_);
    if (got == 0) return absl::OutOfRangeError(path_ + " ends " + std::to_string(count) + " bytes early");
    out += got;
    offset += got;
    count -= got;
  }
  return absl::OkStatus();
}

absl::Status AppendFile::CheckIsAt(const std::string& path) const {
  struct stat held, named;
  if (::fstat(fd_.get(), &held) != 0) return ErrnoStatus(errno, "cannot ask for " + path);
  bool there = ::stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  return there ? absl::OkStatus() : absl::FailedPreconditionError(path + " was removed or moved while it was written");
}

}  // namespace troupe
