// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/unique_fd.h"

namespace troupe {
namespace {

constexpr uint64_t kMagic = 0x314c495053525454;  // "TTRSPIL1"
// Of one write(2) or read(2).
constexpr size_t kPartBytes = 4 << 20;

struct Header {
  uint64_t magic = kMagic;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
  uint32_t zero = 0;
};

uint32_t SumOf(std::span<const std::byte> bytes) {
  return Crc32c(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::Status WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kPartBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot spill an object");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t read = ::read(fd, bytes.data(), std::min(bytes.size(), kPartBytes));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return ErrnoStatus(errno, "cannot read a spilled object");
    if (read == 0) return absl::DataLossError("a spilled object is cut");
    bytes = bytes.subspan(static_cast<size_t>(read));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSpillFile(const std::string& path, uint64_t sequence, std::span<const std::byte> bytes) {
  Header header{.sequence = sequence, .bytes = bytes.size(), .crc = SumOf(bytes)};
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, path);
  absl::Status status = WriteAll(fd.get(), std::as_bytes(std::span(&header, 1)));
  if (status.ok()) status = WriteAll(fd.get(), bytes);
  if (!status.ok()) ::unlink(path.c_str());
  return Annotate(status, path);
}

absl::Status ReadSpillFile(const std::string& path, uint64_t sequence, std::span<std::byte> bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, path);
  Header header;
  TROUPE_RETURN_IF_ERROR(Annotate(ReadAll(fd.get(), std::as_writable_bytes(std::span(&header, 1))), path));
  if (header.magic != kMagic || header.sequence != sequence || header.bytes != bytes.size() || header.zero != 0) {
    return absl::DataLossError(path + " is not the object that was spilled into it");
  }
  TROUPE_RETURN_IF_ERROR(Annotate(ReadAll(fd.get(), bytes), path));
  if (SumOf(bytes) != header.crc) return absl::DataLossError(path + " is damaged: its checksum is another");
  return absl::OkStatus();
}

}  // namespace troupe
