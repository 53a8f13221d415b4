// SPDX-License-Identifier: Apache-2.0
// Record files: append-only files of checked records, for segments of rows and the controller's log.
//
//   file   := magic ("TRPREC01") record*
//   record := length (4 bytes, little endian, not 0) crc32c of the payload (4 bytes) payload
//
// A record is in the kernel's page cache when Append returns: it survives the death of the process, and of the machine
// after Sync. A torn record at the end (the writer died in the middle; also one behind which there are only zeros, as a
// loss of power leaves them) is cut off when the file is opened; a bad one before the end is DATA_LOSS, which names the
// file and the offset.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/env/append_file.h"

namespace troupe {

// Larger records are refused: a length beyond it is damage, not data.
inline constexpr int64_t kRecordBytesMax = int64_t{256} << 20;

class RecordFile {
 public:
  // Called for each record that is there, with the offset by which Read finds it.
  using Visitor = std::function<absl::Status(int64_t offset, std::string_view payload)>;

  // Opens or creates; `visitor` may be empty. An error of the visitor ends the opening.
  static absl::StatusOr<RecordFile> Open(const std::string& path, const Visitor& visitor);

  // Returns the record's offset. RESOURCE_EXHAUSTED: no space (what was written of it is cut off again).
  absl::StatusOr<int64_t> Append(std::string_view payload);
  absl::StatusOr<std::string> Read(int64_t offset) const;
  absl::Status Sync() { return file_.Sync(); }

  // As of AppendFile.
  absl::Status CheckIsAt(const std::string& path) const { return file_.CheckIsAt(path); }
  int64_t size() const { return file_.size(); }
  const std::string& path() const { return file_.path(); }

 private:
  explicit RecordFile(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

}  // namespace troupe
