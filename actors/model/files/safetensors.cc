// SPDX-License-Identifier: Apache-2.0
// The safetensors format: its header, checked, and the mapped file behind it.
#include "actors/model/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/checked_json.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/env/mapped_file.h"

namespace troupe {
namespace {

using Json = nlohmann::json;

constexpr size_t kRankMax = 8;
constexpr uint64_t kElementsMax = uint64_t{1} << 48;  // far above any model; keeps products inside 64 bits

absl::Status EntryError(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors header: tensor '", name, "': ", what));
}

absl::Status ParseShape(const Json& value, SafetensorsEntry& entry) {
  if (!value.is_array() || value.size() > kRankMax) {
    return EntryError(entry.name, absl::StrCat("'shape' is not a list of at most ", kRankMax, " sizes"));
  }
  uint64_t elements = 1;
  for (const Json& size : value) {
    if (!size.is_number_unsigned()) return EntryError(entry.name, "'shape' holds something other than sizes");
    uint64_t n = size.get<uint64_t>();
    if (n > kElementsMax || (n != 0 && elements > kElementsMax / n)) {
      return EntryError(entry.name, "its 'shape' overflows");
    }
    elements *= n;
    entry.shape.push_back(static_cast<int64_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const Json& value, uint64_t data_bytes) {
  SafetensorsEntry entry;
  entry.name = name;
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets")) {
    return EntryError(name, "dtype, shape and data_offsets are needed");
  }
  if (!value["dtype"].is_string()) return EntryError(name, "'dtype' is not a string");
  absl::StatusOr<ElementType> type = ParseElementType(value["dtype"].get_ref<const std::string&>());
  if (!type.ok())
    return absl::Status(type.status().code(), EntryError(name, std::string(type.status().message())).message());
  entry.type = *type;
  TROUPE_RETURN_IF_ERROR(ParseShape(value["shape"], entry));
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return EntryError(name, "'data_offsets' is not a pair of offsets");
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return EntryError(name, absl::StrCat("its bytes ", entry.begin, " to ", entry.end, " do not lie in the ",
                                         data_bytes, " bytes of data (is the file truncated?)"));
  }
  uint64_t expected = static_cast<uint64_t>(entry.num_elements()) * static_cast<uint64_t>(ElementBytes(entry.type));
  if (entry.end - entry.begin != expected) {
    return EntryError(name, absl::StrCat("its shape and type need ", expected, " bytes but its offsets span ",
                                         entry.end - entry.begin));
  }
  return entry;
}

// The format allows neither overlaps nor holes: the tensors fill the data exactly.
absl::Status CheckLayout(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected) {
      return EntryError(entry.name,
                        absl::StrCat("it begins at ", entry.begin, ", which ",
                                     entry.begin < expected ? "overlaps the tensor" : "leaves a hole after the tensor",
                                     " before it that ends at ", expected));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors header: the tensors end at ", expected,
                                                   " but the file holds ", data_bytes, " bytes of data"));
  }
  return absl::OkStatus();
}

absl::Status ParseMetadata(const Json& value, SafetensorsHeader& header) {
  if (!value.is_object()) return absl::InvalidArgumentError("safetensors header: '__metadata__' is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("safetensors header: metadata '", key, "' is not a string"));
    }
    header.metadata[key] = text.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const std::byte> file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("too short for a safetensors file: ", file.size(), " bytes, at least 8 are expected"));
  }
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > kSafetensorsHeaderBytesMax || header_bytes > file.size() - sizeof(header_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file, or a truncated one: a header of ",
                                                   header_bytes, " bytes in a file of ", file.size()));
  }
  std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof(header_bytes), header_bytes);
  absl::StatusOr<Json> json = ParseJson(text, "safetensors header", {.depth_max = 4, .nodes_max = 4'000'000});
  if (!json.ok()) return json.status();
  if (!json->is_object()) return absl::InvalidArgumentError("safetensors header: not an object");

  SafetensorsHeader header;
  header.data_begin = sizeof(header_bytes) + header_bytes;
  uint64_t data_bytes = file.size() - header.data_begin;
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") {
      TROUPE_RETURN_IF_ERROR(ParseMetadata(value, header));
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(SafetensorsEntry entry, ParseEntry(name, value, data_bytes));
    header.entries.push_back(std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  TROUPE_RETURN_IF_ERROR(CheckLayout(header.entries, data_bytes));
  return header;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(file->bytes());
  if (!header.ok()) return Annotate(header.status(), path);
  std::unique_ptr<SafetensorsFile> opened(new SafetensorsFile());
  opened->file_ = std::move(file);
  opened->header_ = *std::move(header);
  for (size_t i = 0; i < opened->header_.entries.size(); ++i) opened->by_name_[opened->header_.entries[i].name] = i;
  return opened;
}

SafetensorsFile::~SafetensorsFile() = default;

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

absl::Span<const std::byte> SafetensorsFile::Bytes(const SafetensorsEntry& entry) const {
  return file_->bytes().subspan(header_.data_begin + entry.begin, entry.end - entry.begin);
}

absl::Status SafetensorsFile::ReadFloats(const SafetensorsEntry& entry, absl::Span<float> out) const {
  return ElementsToFloats(entry.type, Bytes(entry), out);
}

}  // namespace troupe
