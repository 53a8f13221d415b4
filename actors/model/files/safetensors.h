// SPDX-License-Identifier: Apache-2.0
// The safetensors format: a JSON header of names, types, shapes and offsets, then the bytes of the tensors.
// https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/element_type.h"
#include "runtime/env/append_file.h"

namespace troupe {

class MappedFile;

struct SafetensorsEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // offsets in the data that follows the header
  uint64_t end = 0;

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
  }
};

struct SafetensorsHeader {
  uint64_t data_begin = 0;                // offset in the file
  std::vector<SafetensorsEntry> entries;  // by offset
  std::map<std::string, std::string> metadata;
};

// The header is at most this long, as in the reference implementation, so a hostile length allocates nothing.
inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

// Checks all of it: lengths, types, shapes that overflow, offsets out of range, overlaps and holes, names twice.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> file);

// A mapped file, immutable once open. Any thread may read.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  ~SafetensorsFile();

  absl::Span<const SafetensorsEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* Find(std::string_view name) const;

  // Valid as long as this object.
  absl::Span<const std::byte> Bytes(const SafetensorsEntry& entry) const;

  // `out` has entry.num_elements() floats.
  absl::Status ReadFloats(const SafetensorsEntry& entry, absl::Span<float> out) const;

 private:
  SafetensorsFile() = default;

  std::unique_ptr<MappedFile> file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// Writes one file. The entries (offsets are computed; those given are ignored) are fixed at Create; then each is
// written once, in that order. The data begins at a multiple of 64 bytes, and entries whose sizes are multiples of 64
// stay aligned so. Not atomic: write aside and rename where that matters.
class SafetensorsWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                                   std::vector<SafetensorsEntry> entries,
                                                                   const std::map<std::string, std::string>& metadata);

  // Casts to the entry's type (F32, F16 or BF16). FAILED_PRECONDITION when it is not `name`'s turn.
  absl::Status WriteFloats(std::string_view name, absl::Span<const float> values);
  absl::Status WriteBytes(std::string_view name, absl::Span<const std::byte> bytes);

  // Syncs it to disk. FAILED_PRECONDITION if entries are missing.
  absl::Status Finish();

 private:
  SafetensorsWriter(AppendFile file, std::vector<SafetensorsEntry> entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}
  absl::StatusOr<const SafetensorsEntry*> Next(std::string_view name);

  AppendFile file_;
  std::vector<SafetensorsEntry> entries_;
  size_t next_ = 0;
};

}  // namespace troupe
