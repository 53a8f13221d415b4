// SPDX-License-Identifier: Apache-2.0
// A whole file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace troupe {

// Unmapped when destroyed. The file must not be cut while it is mapped (reading beyond its new end is SIGBUS).
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for a folder; each names the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::Span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, void* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  void* data_;
  size_t size_;
};

}  // namespace troupe
