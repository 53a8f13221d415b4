// SPDX-License-Identifier: Apache-2.0
// Typed access to a GGUF file's metadata and tensors.
#include "actors/model/files/gguf.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/mapped_file.h"

namespace troupe {
namespace {

template <typename T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

size_t IntBytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
      return 8;
    default:
      return 0;
  }
}

// False for a type that is no integer, or an unsigned number above the largest int64.
bool LoadInt(GgufValueType type, const std::byte* p, int64_t& out) {
  switch (type) {
    case GgufValueType::kUint8:
      out = Load<uint8_t>(p);
      return true;
    case GgufValueType::kInt8:
      out = Load<int8_t>(p);
      return true;
    case GgufValueType::kUint16:
      out = Load<uint16_t>(p);
      return true;
    case GgufValueType::kInt16:
      out = Load<int16_t>(p);
      return true;
    case GgufValueType::kUint32:
      out = Load<uint32_t>(p);
      return true;
    case GgufValueType::kInt32:
      out = Load<int32_t>(p);
      return true;
    case GgufValueType::kUint64:
      out = Load<int64_t>(p);
      return out >= 0;
    case GgufValueType::kInt64:
      out = Load<int64_t>(p);
      return true;
    default:
      return false;
  }
}

// 1e-5 stored as float32 is 9.99999974e-06 as a double; people wrote 1e-5.
double ShortestDecimal(float value) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

absl::Status WrongType(std::string_view key, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("GGUF key '", std::string(key), "' is not ", expected));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<GgufContents> contents = ParseGguf(file->bytes());
  if (!contents.ok()) return Annotate(contents.status(), path);
  std::unique_ptr<GgufFile> opened(new GgufFile());
  opened->file_ = std::move(file);
  opened->contents_ = *std::move(contents);
  for (size_t i = 0; i < opened->contents_.tensors.size(); ++i) opened->by_name_[opened->contents_.tensors[i].name] = i;
  return opened;
}

GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const { return file_->path(); }

const GgufTensor* GgufFile::Find(std::string_view tensor) const {
  auto found = by_name_.find(tensor);
  return found == by_name_.end() ? nullptr : &contents_.tensors[found->second];
}

absl::StatusOr<const GgufValue*> GgufFile::Value(std::string_view key) const {
  auto found = contents_.metadata.find(key);
  if (found == contents_.metadata.end()) {
    return absl::NotFoundError(absl::StrCat("GGUF key '", std::string(key), "' is missing"));
  }
  return &found->second;
}

absl::StatusOr<std::string> GgufFile::String(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  if (value->type != GgufValueType::kString) return WrongType(key, "a string");
  return std::string(reinterpret_cast<const char*>(value->bytes.data()) + sizeof(uint64_t),
                     value->bytes.size() - sizeof(uint64_t));
}

absl::StatusOr<int64_t> GgufFile::Int(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  int64_t out = 0;
  if (!LoadInt(value->type, value->bytes.data(), out)) return WrongType(key, "a whole number");
  return out;
}

absl::StatusOr<double> GgufFile::Number(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  int64_t whole = 0;
  if (value->type == GgufValueType::kFloat32) return ShortestDecimal(Load<float>(value->bytes.data()));
  if (value->type == GgufValueType::kFloat64) return Load<double>(value->bytes.data());
  if (!LoadInt(value->type, value->bytes.data(), whole)) return WrongType(key, "a number");
  return static_cast<double>(whole);
}

absl::StatusOr<bool> GgufFile::Bool(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  if (value->type != GgufValueType::kBool) return WrongType(key, "true or false");
  return Load<uint8_t>(value->bytes.data()) != 0;
}

absl::StatusOr<std::vector<std::string>> GgufFile::Strings(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  if (value->type != GgufValueType::kArray || value->element_type != GgufValueType::kString) {
    return WrongType(key, "an array of strings");
  }
  std::vector<std::string> out;
  out.reserve(value->count);
  const std::byte* p = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) {  // lengths were checked by ParseGguf
    uint64_t length = Load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p) + sizeof(length), length);
    p += sizeof(length) + length;
  }
  return out;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  TROUPE_ASSIGN_OR_RETURN(const GgufValue* value, Value(key));
  size_t bytes = IntBytes(value->element_type);
  if (value->type != GgufValueType::kArray || bytes == 0) return WrongType(key, "an array of whole numbers");
  std::vector<int64_t> out(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    if (!LoadInt(value->element_type, value->bytes.data() + i * bytes, out[i])) {
      return WrongType(key, "an array of whole numbers in range");
    }
  }
  return out;
}

}  // namespace troupe
