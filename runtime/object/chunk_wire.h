// SPDX-License-Identifier: Apache-2.0
// ObjectChunk (object_exchange.proto) as gRPC's buffers, so that an object's bytes are copied once on their way: from
// the connection's buffers to their place. Bytes of other nodes are checked before anything is written.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace troupe {

// Of every chunk of an object but the last.
inline constexpr int64_t kChunkBytes = 1 << 20;

// One at least: an empty object has an empty chunk.
inline int64_t ChunksOf(int64_t object_bytes) {
  return std::max<int64_t>(object_bytes / kChunkBytes + (object_bytes % kChunkBytes != 0 ? 1 : 0), 1);
}
// `chunk` is one of the object's.
template <typename Byte>
std::span<Byte> ChunkOf(std::span<Byte> object, int64_t chunk) {
  std::span<Byte> rest = object.subspan(static_cast<size_t>(chunk * kChunkBytes));
  return rest.first(std::min(static_cast<size_t>(kChunkBytes), rest.size()));
}

uint32_t ChunkSum(std::span<const std::byte> chunk);

// `sent` runs when the bytes are not needed any more, on any thread.
grpc::ByteBuffer EncodeChunk(std::span<const std::byte> chunk, uint32_t crc, std::function<void()> sent);

// Into `chunk`. DATA_LOSS: it is cut, of another size, or its checksum is not what it says, or not `crc`; then what is
// in `chunk` means nothing.
absl::Status DecodeChunk(const std::vector<grpc::Slice>& message, std::optional<uint32_t> crc,
                         std::span<std::byte> chunk);

}  // namespace troupe
