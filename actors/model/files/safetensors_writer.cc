// SPDX-License-Identifier: Apache-2.0
// Writing a safetensors file: the header from the list of tensors, then each of them in order.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/model/files/safetensors.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr size_t kDataAlignment = 64;         // of the first byte of data: a cache line, and any vector load
constexpr size_t kCastElements = 256 * 1024;  // cast and written at a time, so that a large tensor needs no copy

// The header's text, padded with spaces (which the format allows) so that the data is aligned.
std::string HeaderText(const std::vector<SafetensorsEntry>& entries,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::string text = json.dump();
  text.pop_back();  // the closing brace; appending by hand keeps a header of many tensors linear
  for (const SafetensorsEntry& entry : entries) {
    nlohmann::ordered_json value;
    value["dtype"] = ElementTypeName(entry.type);
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.begin, entry.end};
    absl::StrAppend(&text, text.size() > 1 ? "," : "", nlohmann::json(entry.name).dump(), ":", value.dump());
  }
  text += '}';
  text.append((kDataAlignment - (sizeof(uint64_t) + text.size()) % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata) {
  uint64_t offset = 0;
  std::set<std::string> names;
  for (SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second || entry.name == "__metadata__") {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the tensor name '", entry.name, "' stands twice or is reserved"));
    }
    entry.begin = offset;
    offset += static_cast<uint64_t>(entry.num_elements()) * static_cast<uint64_t>(ElementBytes(entry.type));
    entry.end = offset;
  }
  TROUPE_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  TROUPE_RETURN_IF_ERROR(file.Truncate(0));
  std::string text = HeaderText(entries, metadata);
  uint64_t header_bytes = text.size();
  text.insert(0, reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  TROUPE_RETURN_IF_ERROR(file.Append(text));
  return std::unique_ptr<SafetensorsWriter>(new SafetensorsWriter(std::move(file), std::move(entries)));
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsWriter::Next(std::string_view name) {
  if (next_ >= entries_.size() || entries_[next_].name != name) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", std::string(name), "' was written where ",
                     next_ < entries_.size() ? absl::StrCat("'", entries_[next_].name, "'") : "none", " was expected"));
  }
  return &entries_[next_++];
}

absl::Status SafetensorsWriter::WriteFloats(std::string_view name, absl::Span<const float> values) {
  TROUPE_ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Next(name));
  if (static_cast<int64_t>(values.size()) != entry->num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", std::string(name), "' has ", entry->num_elements(),
                                                   " elements but ", values.size(), " were given"));
  }
  if (entry->type == ElementType::kF32) {
    return file_.Append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  std::vector<std::byte> bytes;
  for (size_t begin = 0; begin < values.size(); begin += kCastElements) {
    absl::Span<const float> part = values.subspan(begin, kCastElements);
    bytes.resize(part.size() * static_cast<size_t>(ElementBytes(entry->type)));
    TROUPE_RETURN_IF_ERROR(FloatsToElements(entry->type, part, absl::MakeSpan(bytes)));
    TROUPE_RETURN_IF_ERROR(file_.Append({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::WriteBytes(std::string_view name, absl::Span<const std::byte> bytes) {
  TROUPE_ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Next(name));
  if (bytes.size() != entry->end - entry->begin) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", std::string(name), "' has ", entry->end - entry->begin,
                                                   " bytes but ", bytes.size(), " were given"));
  }
  return file_.Append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::Status SafetensorsWriter::Finish() {
  if (next_ != entries_.size()) {
    return absl::FailedPreconditionError(absl::StrCat("tensor '", entries_[next_].name, "' was never written"));
  }
  return file_.Sync();
}

}  // namespace troupe
