// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/chunk_wire.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "troupe/v1/object_exchange.pb.h"

namespace troupe {
namespace {

std::vector<std::byte> Bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  REQUIRE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

TEST_CASE("Chunks: an object is cut into parts that cover it", "[object]") {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 5 * kChunkBytes}) {
    std::vector<std::byte> object(static_cast<size_t>(bytes));
    size_t covered = 0;
    for (int64_t chunk = 0; chunk < ChunksOf(bytes); ++chunk) {
      CHECK(ChunkOf(std::span(object), chunk).data() == object.data() + covered);
      covered += ChunkOf(std::span(object), chunk).size();
    }
    CHECK(covered == object.size());
  }
  CHECK(ChunksOf(INT64_MAX) == (INT64_MAX >> 20) + 1);
}

TEST_CASE("Chunks: what is sent is the message of the proto, without a copy of its bytes", "[object]") {
  for (size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{100'000}, size_t{1} << 20}) {
    std::vector<std::byte> bytes = Bytes(size);
    int sent = 0;
    {
      grpc::ByteBuffer buffer = EncodeChunk(bytes, ChunkSum(bytes), [&] { ++sent; });
      v1::ObjectChunk chunk;
      REQUIRE(chunk.ParseFromString(Text(buffer)));
      CHECK(chunk.crc32c() == ChunkSum(bytes));
      CHECK(chunk.data().size() == size);
      std::vector<grpc::Slice> slices;
      REQUIRE(buffer.Dump(&slices).ok());
      if (size > 1000) CHECK(slices.back().begin() == reinterpret_cast<const uint8_t*>(bytes.data()));
      std::vector<std::byte> into(size);
      REQUIRE(DecodeChunk(slices, ChunkSum(bytes), into).ok());
      CHECK(into == bytes);
      CHECK(DecodeChunk(slices, std::nullopt, into).ok());
      CHECK(DecodeChunk(slices, ChunkSum(bytes) + 1, into).code() == absl::StatusCode::kDataLoss);
      std::vector<std::byte> longer(size + 1);
      CHECK(DecodeChunk(slices, std::nullopt, longer).code() == absl::StatusCode::kDataLoss);
    }
    CHECK(sent == 1);
  }
}

TEST_CASE("Chunks: however it is cut, flipped or lengthened, a chunk is refused, and nothing beside it is written",
          "[object]") {
  std::vector<std::byte> bytes = Bytes(3000);
  const std::string good = Text(EncodeChunk(bytes, ChunkSum(bytes), [] {}));
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    switch (random() % 4) {
      case 0:
        bad[random() % (i % 2 == 0 ? 10 : bad.size())] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        bad.resize(random() % bad.size());
        break;
      case 2:
        bad.insert(random() % bad.size(), 1 + random() % 20, static_cast<char>(random()));
        break;
      default:
        bad.erase(random() % bad.size(), 1 + random() % 20);
    }
    if (bad == good) continue;
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bad.size();) {
      size_t part = std::min<size_t>(bad.size() - at, random() % 2000);
      slices.emplace_back(bad.data() + at, part);
      at += part;
    }
    std::vector<std::byte> into(bytes.size() + 8, std::byte{0x5a});
    absl::Status status = DecodeChunk(slices, std::nullopt, std::span(into).first(bytes.size()));
    REQUIRE(status.code() == absl::StatusCode::kDataLoss);
    for (size_t at = bytes.size(); at < into.size(); ++at) REQUIRE(into[at] == std::byte{0x5a});
  }
}

}  // namespace
}  // namespace troupe
