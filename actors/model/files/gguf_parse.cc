// SPDX-License-Identifier: Apache-2.0
// Reads the header of a GGUF file with every length checked against what is left of the file.
#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/gguf.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr uint64_t kNameBytesMax = 65535;  // of keys and tensor names, as the format says
constexpr uint32_t kDimensionsMax = 4;     // as in ggml
constexpr int kArrayDepthMax = 4;          // arrays of arrays are allowed; nobody writes them
constexpr uint64_t kElementsMax = uint64_t{1} << 48;

// Bytes of one value; 0 for strings and arrays.
uint64_t ScalarBytes(GgufValueType type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

// A position in the file that cannot leave it.
class Cursor {
 public:
  explicit Cursor(absl::Span<const std::byte> file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_.size() - position_; }
  absl::Span<const std::byte> From(uint64_t begin) const { return file_.subspan(begin, position_ - begin); }

  absl::Status Skip(uint64_t bytes, const char* what) {
    if (bytes > left()) {
      return absl::InvalidArgumentError(absl::StrCat("truncated GGUF file: ", what, " at byte ", position_, " needs ",
                                                     bytes, " bytes but ", left(), " are left"));
    }
    position_ += bytes;
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Read(T& value, const char* what) {
    uint64_t begin = position_;
    TROUPE_RETURN_IF_ERROR(Skip(sizeof(T), what));
    std::memcpy(&value, file_.data() + begin, sizeof(T));
    return absl::OkStatus();
  }

  absl::Status ReadName(std::string& name, const char* what) {
    uint64_t length = 0;
    TROUPE_RETURN_IF_ERROR(Read(length, what));
    if (length > kNameBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("corrupt GGUF file: ", what, " at byte ", position_, " has a length of ", length));
    }
    uint64_t begin = position_;
    TROUPE_RETURN_IF_ERROR(Skip(length, what));
    name.assign(reinterpret_cast<const char*>(file_.data()) + begin, length);
    return absl::OkStatus();
  }

  absl::Status ReadValueType(GgufValueType& type, const std::string& key) {
    uint32_t number = 0;
    TROUPE_RETURN_IF_ERROR(Read(number, "a value's type"));
    if (number > static_cast<uint32_t>(GgufValueType::kFloat64)) {
      return absl::InvalidArgumentError(
          absl::StrCat("corrupt GGUF file: key '", key, "' has a value of unknown type ", number));
    }
    type = static_cast<GgufValueType>(number);
    return absl::OkStatus();
  }

 private:
  absl::Span<const std::byte> file_;
  uint64_t position_ = 0;
};

absl::Status SkipElements(Cursor& cursor, const std::string& key, GgufValueType type, uint64_t count, int depth);

absl::Status SkipArray(Cursor& cursor, const std::string& key, int depth) {
  GgufValueType type;
  uint64_t count = 0;
  TROUPE_RETURN_IF_ERROR(cursor.ReadValueType(type, key));
  TROUPE_RETURN_IF_ERROR(cursor.Read(count, "an array's length"));
  return SkipElements(cursor, key, type, count, depth);
}

absl::Status SkipElements(Cursor& cursor, const std::string& key, GgufValueType type, uint64_t count, int depth) {
  if (depth > kArrayDepthMax) {
    return absl::InvalidArgumentError(absl::StrCat("GGUF key '", key, "': arrays nested too deeply"));
  }
  uint64_t scalar = ScalarBytes(type);
  if (count > cursor.left()) {  // every element takes a byte at least
    return absl::InvalidArgumentError(absl::StrCat("truncated GGUF file: the array '", key, "' of ", count,
                                                   " elements does not fit in the ", cursor.left(), " bytes left"));
  }
  if (scalar != 0) return cursor.Skip(count * scalar, "an array");
  for (uint64_t i = 0; i < count; ++i) {
    if (type == GgufValueType::kArray) {
      TROUPE_RETURN_IF_ERROR(SkipArray(cursor, key, depth + 1));
    } else {
      uint64_t length = 0;
      TROUPE_RETURN_IF_ERROR(cursor.Read(length, "a string's length"));
      TROUPE_RETURN_IF_ERROR(cursor.Skip(length, "a string"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(Cursor& cursor, GgufContents& contents) {
  std::string key;
  TROUPE_RETURN_IF_ERROR(cursor.ReadName(key, "a metadata key"));
  GgufValue value;
  TROUPE_RETURN_IF_ERROR(cursor.ReadValueType(value.type, key));
  if (value.type == GgufValueType::kArray) {
    TROUPE_RETURN_IF_ERROR(cursor.ReadValueType(value.element_type, key));
    TROUPE_RETURN_IF_ERROR(cursor.Read(value.count, "an array's length"));
  }
  uint64_t begin = cursor.position();
  GgufValueType type = value.type == GgufValueType::kArray ? value.element_type : value.type;
  TROUPE_RETURN_IF_ERROR(SkipElements(cursor, key, type, value.count, 0));
  value.bytes = cursor.From(begin);
  if (!contents.metadata.emplace(key, value).second) {
    return absl::InvalidArgumentError(absl::StrCat("corrupt GGUF file: the key '", key, "' stands twice"));
  }
  return absl::OkStatus();
}

absl::Status TensorError(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("corrupt GGUF file: tensor '", name, "': ", what));
}

// `offset` of the result is still relative to the data, which begins after the last description.
absl::StatusOr<GgufTensor> ReadTensorInfo(Cursor& cursor) {
  GgufTensor tensor;
  TROUPE_RETURN_IF_ERROR(cursor.ReadName(tensor.name, "a tensor's name"));
  uint32_t dimensions = 0;
  TROUPE_RETURN_IF_ERROR(cursor.Read(dimensions, "a tensor's rank"));
  if (dimensions > kDimensionsMax) return TensorError(tensor.name, absl::StrCat("it has ", dimensions, " dimensions"));
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    uint64_t size = 0;
    TROUPE_RETURN_IF_ERROR(cursor.Read(size, "a tensor's shape"));
    if (size == 0 || size > kElementsMax / elements) {
      return TensorError(tensor.name, absl::StrCat("dimension ", i, " is ", size));
    }
    elements *= size;
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  uint32_t type = 0;
  TROUPE_RETURN_IF_ERROR(cursor.Read(type, "a tensor's type"));
  TROUPE_RETURN_IF_ERROR(cursor.Read(tensor.offset, "a tensor's offset"));
  absl::StatusOr<const GgmlTypeTraits*> traits = FindGgmlType(type);
  if (!traits.ok()) return Annotate(traits.status(), absl::StrCat("tensor '", tensor.name, "'"));
  tensor.type = *traits;
  uint64_t row = tensor.shape.empty() ? 1 : static_cast<uint64_t>(tensor.shape.back());
  if (row % tensor.type->block_elements != 0) {
    return TensorError(tensor.name,
                       absl::StrCat("rows of ", row, " are no whole number of ", tensor.type->name, " blocks"));
  }
  return tensor;
}

absl::Status PlaceTensors(absl::Span<const std::byte> file, uint64_t data_begin, uint64_t alignment,
                          std::vector<GgufTensor>& tensors) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (GgufTensor& tensor : tensors) {
    uint64_t elements = 1;
    for (int64_t size : tensor.shape) elements *= static_cast<uint64_t>(size);
    uint64_t bytes = elements / tensor.type->block_elements * tensor.type->block_bytes;
    if (tensor.offset % alignment != 0) {
      return TensorError(tensor.name, absl::StrCat("its offset ", tensor.offset, " is not a multiple of ", alignment));
    }
    uint64_t available = file.size() - std::min<uint64_t>(file.size(), data_begin);
    if (tensor.offset > available || bytes > available - tensor.offset) {
      return TensorError(
          tensor.name, absl::StrCat("its ", bytes, " bytes at offset ", tensor.offset, " do not lie in the ", available,
                                    " bytes of data (is the file truncated?)"));
    }
    ranges.emplace_back(tensor.offset, tensor.offset + bytes);
    tensor.offset += data_begin;
    tensor.bytes = file.subspan(tensor.offset, bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return absl::InvalidArgumentError(
          absl::StrCat("corrupt GGUF file: two tensors overlap at offset ", ranges[i].first));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Alignment(const GgufContents& contents) {
  constexpr uint32_t kDefault = 32, kMax = 1 << 20;
  auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return kDefault;
  uint32_t value = 0;
  if (found->second.type == GgufValueType::kUint32) std::memcpy(&value, found->second.bytes.data(), sizeof(value));
  if (value == 0 || value % 8 != 0 || value > kMax) {
    return absl::InvalidArgumentError(absl::StrCat("corrupt GGUF file: general.alignment is ", value));
  }
  return value;
}

}  // namespace

absl::StatusOr<GgufContents> ParseGguf(absl::Span<const std::byte> file) {
  Cursor cursor(file);
  GgufContents contents;
  char magic[4] = {};
  uint64_t tensor_count = 0, metadata_count = 0;
  if (file.size() < sizeof(magic) || std::memcmp(file.data(), "GGUF", sizeof(magic)) != 0) {
    return absl::InvalidArgumentError("not a GGUF file: it does not begin with 'GGUF'");
  }
  TROUPE_RETURN_IF_ERROR(cursor.Read(magic, "the magic number"));
  TROUPE_RETURN_IF_ERROR(cursor.Read(contents.version, "the version"));
  if (contents.version != 2 && contents.version != 3) {
    bool swapped = contents.version == 0x02000000 || contents.version == 0x03000000;
    return absl::UnimplementedError(
        swapped ? std::string("a big-endian GGUF file; only little-endian is supported")
                : absl::StrCat("GGUF version ", contents.version, " is not supported; supported: 2, 3"));
  }
  TROUPE_RETURN_IF_ERROR(cursor.Read(tensor_count, "the number of tensors"));
  TROUPE_RETURN_IF_ERROR(cursor.Read(metadata_count, "the number of metadata values"));
  for (uint64_t i = 0; i < metadata_count; ++i) TROUPE_RETURN_IF_ERROR(ReadMetadata(cursor, contents));
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    TROUPE_ASSIGN_OR_RETURN(GgufTensor tensor, ReadTensorInfo(cursor));
    if (!names.insert(tensor.name).second) return TensorError(tensor.name, "it stands twice");
    contents.tensors.push_back(std::move(tensor));
  }
  TROUPE_ASSIGN_OR_RETURN(uint64_t alignment, Alignment(contents));
  uint64_t data_begin = (cursor.position() + alignment - 1) / alignment * alignment;
  TROUPE_RETURN_IF_ERROR(PlaceTensors(file, data_begin, alignment, contents.tensors));
  return contents;
}

}  // namespace troupe
