// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/record_file.h"

#include <algorithm>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"

namespace troupe {
namespace {

constexpr std::string_view kMagic = "TRPREC01";
constexpr int64_t kHeaderBytes = 8;

uint32_t LoadLittleEndian(const char* p) {
  const auto* u = reinterpret_cast<const unsigned char*>(p);
  return u[0] | u[1] << 8 | u[2] << 16 | static_cast<uint32_t>(u[3]) << 24;
}

void StoreLittleEndian(uint32_t value, char* p) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<char>(value >> (8 * i));
}

absl::Status Damaged(const AppendFile& file, int64_t offset, std::string_view why) {
  return absl::DataLossError(file.path() + " is damaged at byte " + std::to_string(offset) + ": " + std::string(why));
}

// Whether nothing, or nothing but zeros, stands behind `offset`: the file system gave the file its length before its
// bytes and the machine died.
bool EndsAt(const AppendFile& file, int64_t offset) {
  char bytes[4096];
  while (offset < file.size()) {
    const int64_t count = std::min<int64_t>(sizeof(bytes), file.size() - offset);
    if (!file.ReadAt(offset, count, bytes).ok()) return false;
    if (std::any_of(bytes, bytes + count, [](char byte) { return byte != 0; })) return false;
    offset += count;
  }
  return true;
}

// The record at `offset`. OUT_OF_RANGE: the file ends within it; DATA_LOSS: its checksum is wrong.
absl::StatusOr<std::string> ReadRecord(const AppendFile& file, int64_t offset) {
  char header[kHeaderBytes];
  if (offset + kHeaderBytes > file.size()) return absl::OutOfRangeError("torn header");
  TROUPE_RETURN_IF_ERROR(file.ReadAt(offset, kHeaderBytes, header));
  int64_t length = LoadLittleEndian(header);
  if (length == 0) return Damaged(file, offset, "a record of no length");
  if (length > kRecordBytesMax) return Damaged(file, offset, "a record of impossible length");
  if (offset + kHeaderBytes + length > file.size()) return absl::OutOfRangeError("torn record");
  std::string payload(static_cast<size_t>(length), '\0');
  TROUPE_RETURN_IF_ERROR(file.ReadAt(offset + kHeaderBytes, length, payload.data()));
  if (Crc32c(payload) != LoadLittleEndian(header + 4)) return Damaged(file, offset, "the checksum is wrong");
  return payload;
}

}  // namespace

absl::StatusOr<RecordFile> RecordFile::Open(const std::string& path, const Visitor& visitor) {
  TROUPE_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  if (file.size() < std::ssize(kMagic)) {
    TROUPE_RETURN_IF_ERROR(file.Truncate(0));
    TROUPE_RETURN_IF_ERROR(file.Append(kMagic));
    return RecordFile(std::move(file));
  }
  char magic[8];
  TROUPE_RETURN_IF_ERROR(file.ReadAt(0, std::ssize(kMagic), magic));
  if (std::string_view(magic, 8) != kMagic) return Damaged(file, 0, "it is no record file");
  for (int64_t offset = std::ssize(kMagic); offset < file.size();) {
    absl::StatusOr<std::string> payload = ReadRecord(file, offset);
    if (!payload.ok()) {
      // The last record may be torn, also with its full length when the machine died: nothing stands behind it.
      char header[kHeaderBytes];
      bool last = absl::IsOutOfRange(payload.status());
      if (!last && file.ReadAt(offset, kHeaderBytes, header).ok()) {
        last = EndsAt(file, offset + kHeaderBytes + LoadLittleEndian(header));
      }
      if (!last) return payload.status();
      TROUPE_RETURN_IF_ERROR(file.Truncate(offset));
      break;
    }
    if (visitor) TROUPE_RETURN_IF_ERROR(visitor(offset, *payload));
    offset += kHeaderBytes + std::ssize(*payload);
  }
  return RecordFile(std::move(file));
}

absl::StatusOr<int64_t> RecordFile::Append(std::string_view payload) {
  if (payload.empty()) return absl::InvalidArgumentError("a record without content");
  if (std::ssize(payload) > kRecordBytesMax) return absl::ResourceExhaustedError("a record of more than 256 MiB");
  std::string record(kHeaderBytes, '\0');
  StoreLittleEndian(static_cast<uint32_t>(payload.size()), record.data());
  StoreLittleEndian(Crc32c(payload), record.data() + 4);
  record.append(payload);
  int64_t offset = file_.size();
  absl::Status written = file_.Append(record);
  if (!written.ok()) {
    file_.Truncate(offset).IgnoreError();
    return written;
  }
  return offset;
}

absl::StatusOr<std::string> RecordFile::Read(int64_t offset) const {
  absl::StatusOr<std::string> payload = ReadRecord(file_, offset);
  if (absl::IsOutOfRange(payload.status())) return Damaged(file_, offset, "it ends too early");
  return payload;
}

}  // namespace troupe
