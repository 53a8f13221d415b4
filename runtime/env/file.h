// SPDX-License-Identifier: Apache-2.0
// Whole files and folders. Every error names the path. Functions are safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// The file's content. RESOURCE_EXHAUSTED when it has more than `bytes_max` bytes (nothing more is read than that);
// NOT_FOUND, PERMISSION_DENIED as of open(2).
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max);

// Replaces the file as a whole: a reader, also after a crash or a loss of power at any moment, sees the old content or
// the new one. Written aside, fsync, rename, fsync of the folder. RESOURCE_EXHAUSTED: no space; the old file is intact.
absl::Status WriteFileAtomic(const std::string& path, std::string_view content, uint32_t mode = 0644);

// The same for a file that must not exist yet: ALREADY_EXISTS when it does, also when another process was faster.
absl::Status CreateFileAtomic(const std::string& path, std::string_view content, uint32_t mode = 0644);

// Makes the folder and those above it. OK when it exists already. `mode` is of those that are made.
absl::Status MakeDirs(const std::string& path, uint32_t mode = 0755);

// Makes the names in a folder durable (after a rename or a removal in it).
absl::Status SyncDirectory(const std::string& path);

// rename(2), then the folder is synced. Source and target are in one file system.
absl::Status RenameDurably(const std::string& from, const std::string& to);

// Removes a file, or a folder with everything in it; follows no links. OK when there is nothing.
absl::Status RemoveTree(const std::string& path);

// Names in a folder (not paths), sorted. NOT_FOUND when there is no such folder.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

bool FileExists(const std::string& path);

struct FileInfo {
  int64_t size_bytes = 0;
  uint32_t permissions = 0;  // The lower nine bits: 0600.
  uint32_t owner = 0;        // User id.
  bool is_folder = false;
  uint64_t inode = 0;  // Tells files of one file system apart, whatever they are called.
};
// NOT_FOUND when there is nothing. Follows links.
absl::StatusOr<FileInfo> StatFile(const std::string& path);

// Bytes that this process may still write on the file system of `path`.
absl::StatusOr<int64_t> FreeBytes(const std::string& path);

// A folder of its own under $TMPDIR or /tmp, mode 0700: "<prefix>-XXXXXX".
absl::StatusOr<std::string> MakeTemporaryDirectory(std::string_view prefix);

// "" when the variable is not set.
std::string EnvironmentVariable(const std::string& name);

// Replaces a leading "~/" by the home folder.
std::string ExpandHome(const std::string& path);

}  // namespace troupe
