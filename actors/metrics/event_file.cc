// SPDX-License-Identifier: Apache-2.0
#include "actors/metrics/event_file.h"

#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe {
namespace {

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));  // x86-64 and aarch64 are little endian
  return bytes;
}

uint32_t MaskedCrc(std::string_view bytes) {
  uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// Protobuf fields by hand: key = number << 3 | wire type.
std::string Bytes(int number, std::string_view value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(value.size()) + std::string(value);
}
std::string Double(int number, double value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 1) + LittleEndian(value);
}
std::string Float(int number, float value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 5) + LittleEndian(value);
}
std::string Integer(int number, int64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3) + Varint(static_cast<uint64_t>(value));
}

}  // namespace

std::string TfRecord(std::string_view data) {
  std::string length = LittleEndian<uint64_t>(data.size());
  return length + LittleEndian(MaskedCrc(length)) + std::string(data) + LittleEndian(MaskedCrc(data));
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& directory, double time) {
  TROUPE_RETURN_IF_ERROR(MakeDirs(directory));
  std::string name = directory + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(time)) + ".troupe";
  TROUPE_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(name));
  std::unique_ptr<EventFile> events(new EventFile(std::move(file)));
  events->WriteRecord(Double(1, time) + Bytes(3, "brain.Event:2"));
  return events;
}

void EventFile::Write(int64_t step, double time, const std::map<std::string, double>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += Bytes(1, Bytes(1, tag) + Float(2, static_cast<float>(value)));
  }
  WriteRecord(Double(1, time) + Integer(2, step) + Bytes(5, summary));
}

void EventFile::WriteRecord(std::string_view event) { file_.Append(TfRecord(event)).IgnoreError(); }

}  // namespace troupe
