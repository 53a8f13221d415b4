// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "runtime/base/status.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/random.h"
#include "runtime/env/unique_fd.h"

namespace troupe {
namespace {

std::string FolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot write " + path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const std::string& path, std::string_view content, uint32_t mode) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot create " + path);
  TROUPE_RETURN_IF_ERROR(WriteAll(fd.get(), content, path));
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot sync " + path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open " + path);
  constexpr size_t kChunk = 256 * 1024;
  std::string content;
  while (true) {
    size_t had = content.size();
    // One byte more than allowed tells a file that is too long; its reported size is not trusted (/proc says 0).
    size_t want = std::min(kChunk, static_cast<size_t>(bytes_max) + 1 - had);
    content.resize(had + want);
    ssize_t got = ::read(fd.get(), content.data() + had, want);
    if (got < 0 && errno != EINTR) return ErrnoStatus(errno, "cannot read " + path);
    content.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (content.size() > static_cast<size_t>(bytes_max)) {
      return absl::ResourceExhaustedError(path + " has more than the " + std::to_string(bytes_max) + " bytes allowed");
    }
  }
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view content, uint32_t mode) {
  std::string aside = path + ".tmp-" + RandomHex(6);
  absl::Status status = WriteAndSync(aside, content, mode);
  if (status.ok()) status = RenameDurably(aside, path);
  if (!status.ok()) ::unlink(aside.c_str());
  return status;
}

absl::Status CreateFileAtomic(const std::string& path, std::string_view content, uint32_t mode) {
  std::string aside = path + ".tmp-" + RandomHex(6);
  absl::Status status = WriteAndSync(aside, content, mode);
  // link(2), unlike rename(2), never replaces.
  if (status.ok() && ::link(aside.c_str(), path.c_str()) != 0) status = ErrnoStatus(errno, "cannot create " + path);
  ::unlink(aside.c_str());
  return status.ok() ? SyncDirectory(FolderOf(path)) : status;
}

absl::Status MakeDirs(const std::string& path, uint32_t mode) {
  if (path.empty()) return absl::InvalidArgumentError("cannot make a folder with an empty name");
  std::filesystem::path made;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    made /= part;
    if (::mkdir(made.c_str(), mode) == 0 || errno == EEXIST) continue;
    return ErrnoStatus(errno, "cannot make the folder " + made.string());
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot make the folder " + path);
  if (!S_ISDIR(info.st_mode)) return absl::AlreadyExistsError(path + " is no folder");
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open the folder " + path);
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot sync the folder " + path);
  return absl::OkStatus();
}

absl::Status RenameDurably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, "cannot rename " + from + " to " + to);
  return SyncDirectory(FolderOf(to));
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), "cannot remove " + path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(path, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), "cannot list " + path);
  std::sort(names.begin(), names.end());
  return names;
}

bool FileExists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

absl::StatusOr<FileInfo> StatFile(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot look at " + path);
  return FileInfo{info.st_size, info.st_mode & 0777, info.st_uid, S_ISDIR(info.st_mode), info.st_ino};
}

absl::StatusOr<int64_t> FreeBytes(const std::string& path) {
  struct statvfs info;
  if (::statvfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot ask for the free space of " + path);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

absl::StatusOr<std::string> MakeTemporaryDirectory(std::string_view prefix) {
  std::string base = EnvironmentVariable("TMPDIR");
  std::string path = (base.empty() ? "/tmp" : base) + "/" + std::string(prefix) + "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "cannot make a folder like " + path);
  return path;
}

std::string EnvironmentVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

std::string ExpandHome(const std::string& path) {
  if (path.rfind("~/", 0) != 0) return path;
  return EnvironmentVariable("HOME") + path.substr(1);
}

}  // namespace troupe
