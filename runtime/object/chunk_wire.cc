// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/chunk_wire.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/crc32c.h"

namespace troupe {
namespace {

constexpr uint8_t kCrcTag = 1 << 3 | 5;   // Field 1, four bytes.
constexpr uint8_t kDataTag = 2 << 3 | 2;  // Field 2, with a length.
constexpr int kLengthBytesMax = 5;

// What the message is, from its slices.
class SliceReader {
 public:
  explicit SliceReader(const std::vector<grpc::Slice>& slices) : slices_(slices) {}

  bool Read(std::span<std::byte> to) {
    while (!to.empty()) {
      if (at_ == slices_.size()) return false;
      const grpc::Slice& slice = slices_[at_];
      size_t part = std::min(to.size(), slice.size() - offset_);
      if (part > 0) std::memcpy(to.data(), slice.begin() + offset_, part);
      to = to.subspan(part);
      offset_ += part;
      if (offset_ < slice.size()) continue;
      ++at_;
      offset_ = 0;
    }
    return true;
  }
  bool ReadByte(uint8_t& byte) { return Read(std::as_writable_bytes(std::span(&byte, 1))); }
  size_t left() const {
    size_t left = 0;
    for (size_t i = at_; i < slices_.size(); ++i) left += slices_[i].size();
    return left - offset_;
  }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

bool ReadLength(SliceReader& reader, uint64_t& length) {
  length = 0;
  for (int i = 0; i < kLengthBytesMax; ++i) {
    uint8_t byte;
    if (!reader.ReadByte(byte)) return false;
    length |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

uint32_t ChunkSum(std::span<const std::byte> chunk) {
  return Crc32c(std::string_view(reinterpret_cast<const char*>(chunk.data()), chunk.size()));
}

grpc::ByteBuffer EncodeChunk(std::span<const std::byte> chunk, uint32_t crc, std::function<void()> sent) {
  std::string head;
  head.push_back(static_cast<char>(kCrcTag));
  head.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  head.push_back(static_cast<char>(kDataTag));
  size_t length = chunk.size();
  for (; length >= 0x80; length >>= 7) head.push_back(static_cast<char>(length | 0x80));
  head.push_back(static_cast<char>(length));
  auto* done = new std::function<void()>(std::move(sent));
  grpc::Slice slices[] = {grpc::Slice(head),
                          grpc::Slice(
                              const_cast<std::byte*>(chunk.data()), chunk.size(),
                              [](void* data) {
                                std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
                                (*owned)();
                              },
                              done)};
  return grpc::ByteBuffer(slices, 2);
}

absl::Status DecodeChunk(const std::vector<grpc::Slice>& message, std::optional<uint32_t> crc,
                         std::span<std::byte> chunk) {
  SliceReader reader(message);
  uint8_t tag;
  uint32_t said;
  uint64_t length;
  bool framed = reader.ReadByte(tag) && tag == kCrcTag && reader.Read(std::as_writable_bytes(std::span(&said, 1))) &&
                reader.ReadByte(tag) && tag == kDataTag && ReadLength(reader, length);
  if (!framed || length != chunk.size() || reader.left() != chunk.size()) {
    return absl::DataLossError("a chunk is cut, or has another size than it should");
  }
  if (!reader.Read(chunk)) return absl::DataLossError("a chunk is cut");
  uint32_t sum = ChunkSum(chunk);
  if (sum != said || sum != crc.value_or(sum))
    return absl::DataLossError("a chunk has another checksum than it should");
  return absl::OkStatus();
}

}  // namespace troupe
