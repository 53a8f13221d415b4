// SPDX-License-Identifier: Apache-2.0
// GGUF files (versions 2 and 3, little-endian): metadata, then named tensors.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "actors/model/files/ggml_type.h"

namespace troupe {

class MappedFile;

// Numbers are those of the file format.
enum class GgufValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// A checked view of a value's bytes in the file; nothing is copied, so a file cannot make the reader use memory.
struct GgufValue {
  GgufValueType type = GgufValueType::kUint8;
  GgufValueType element_type = GgufValueType::kUint8;  // of an array
  uint64_t count = 1;                                  // elements of an array
  absl::Span<const std::byte> bytes;                   // after the type (and, for an array, after its count)
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major (the reverse of the file's order): the last is contiguous
  const GgmlTypeTraits* type = nullptr;
  absl::Span<const std::byte> bytes;  // all of it, in the file
  uint64_t offset = 0;                // of `bytes` in the file
};

struct GgufContents {
  uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
};

// Checks every length, count, type and offset; the result points into `file`.
absl::StatusOr<GgufContents> ParseGguf(absl::Span<const std::byte> file);

// A mapped file, immutable once open. Any thread may read.
// Accessors: NOT_FOUND if there is no such key, INVALID_ARGUMENT if the value has another type; both name the key.
class GgufFile {
 public:
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();

  const std::string& path() const;
  uint32_t version() const { return contents_.version; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return contents_.metadata; }
  absl::Span<const GgufTensor> tensors() const { return contents_.tensors; }
  const GgufTensor* Find(std::string_view tensor) const;  // nullptr: none

  bool Has(std::string_view key) const { return contents_.metadata.find(key) != contents_.metadata.end(); }
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<int64_t> Int(std::string_view key) const;    // any integer type
  absl::StatusOr<double> Number(std::string_view key) const;  // any number; a float32 as its shortest decimal
  absl::StatusOr<bool> Bool(std::string_view key) const;
  absl::StatusOr<std::vector<std::string>> Strings(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const;

 private:
  GgufFile() = default;
  absl::StatusOr<const GgufValue*> Value(std::string_view key) const;

  std::unique_ptr<MappedFile> file_;
  GgufContents contents_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace troupe
