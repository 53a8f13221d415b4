// SPDX-License-Identifier: Apache-2.0
// AppendFile: a file that grows at its end and is read anywhere, for logs and segments. One writer; reads may come from
// any thread. After a failed Append or Sync the file's end is not known: close it, recover, open again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

class AppendFile {
 public:
  // Opens or creates. Writing goes on at the end of what is there.
  static absl::StatusOr<AppendFile> Open(const std::string& path, uint32_t mode = 0644);

  // Writes all of it, in one write(2) when the kernel takes it. RESOURCE_EXHAUSTED: no space; a part may be in the
  // file.
  absl::Status Append(std::string_view bytes);
  // fdatasync(2).
  absl::Status Sync();
  // Cuts the file (a torn tail found by recovery).
  absl::Status Truncate(int64_t size);
  // Exactly `count` bytes from `offset`; OUT_OF_RANGE when the file ends before.
  absl::Status ReadAt(int64_t offset, int64_t count, char* out) const;

  // FAILED_PRECONDITION: `path` does not name this file: it was removed or moved.
  absl::Status CheckIsAt(const std::string& path) const;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AppendFile(UniqueFd fd, std::string path, int64_t size) : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  UniqueFd fd_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace troupe
