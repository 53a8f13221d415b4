// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/env/errno_status.h"

namespace troupe {
namespace {

std::string ReadNote(int fd) {
  char note[64];
  ssize_t size = ::pread(fd, note, sizeof(note), 0);
  return size <= 0 ? "" : " (" + std::string(note, static_cast<size_t>(size)) + ")";
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path, const std::string& holder) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open the lock " + path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "cannot lock " + path);
    return absl::AlreadyExistsError(holder + ReadNote(fd.get()) + " holds " + path);
  }
  // For people; the lock is good without it (on a full disk).
  std::string note = "pid " + std::to_string(::getpid());
  [[maybe_unused]] bool noted = ::ftruncate(fd.get(), 0) == 0 && ::pwrite(fd.get(), note.data(), note.size(), 0) > 0;
  return FileLock(std::move(fd));
}

}  // namespace troupe
