// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/manifest.h"

#include <tuple>

#include "runtime/base/status.h"

namespace troupe {
namespace {

// Far above what is planned; below it no sum of sizes overflows.
constexpr int64_t kTotalBytesMax = int64_t{1} << 44;
constexpr int64_t kBucketBytesMax = 8 << 20;
constexpr int64_t kAlignment = 64;

auto Key(const v1::WeightVersion& version) { return std::tuple(version.attempt(), version.step()); }

uint64_t Mix(uint64_t hash, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {
    hash = (hash ^ (value & 0xFF)) * 0x100000001B3u;
    value >>= 8;
  }
  return hash;
}

int64_t ElementBytes(const std::string& dtype) {
  if (dtype == "float32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return 0;
}

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("a manifest of weights: " + what); }

absl::Status CheckEntry(const v1::WeightEntry& entry, int64_t total_bytes) {
  int64_t bytes = ElementBytes(entry.dtype());
  if (entry.name().empty() || bytes == 0) return Bad("tensor '" + entry.name() + "' of type '" + entry.dtype() + "'");
  for (int64_t extent : entry.shape()) {
    if (extent <= 0 || extent > total_bytes / bytes) return Bad("the shape of " + entry.name());
    bytes *= extent;
  }
  bool inside = entry.offset_bytes() >= 0 && entry.offset_bytes() % kAlignment == 0 && bytes <= total_bytes &&
                entry.offset_bytes() <= total_bytes - bytes;
  return inside ? absl::OkStatus() : Bad("tensor " + entry.name() + " does not lie within the buffer");
}

}  // namespace

bool VersionLess(const v1::WeightVersion& a, const v1::WeightVersion& b) { return Key(a) < Key(b); }
bool VersionEqual(const v1::WeightVersion& a, const v1::WeightVersion& b) { return Key(a) == Key(b); }

std::string VersionText(const v1::WeightVersion& version) {
  return "(attempt " + std::to_string(version.attempt()) + ", step " + std::to_string(version.step()) + ")";
}

int64_t BucketCount(const v1::WeightManifest& manifest) {
  return (manifest.total_bytes() + manifest.bucket_bytes() - 1) / manifest.bucket_bytes();
}

int64_t BucketSize(const v1::WeightManifest& manifest, int64_t index) {
  return std::min(manifest.bucket_bytes(), manifest.total_bytes() - index * manifest.bucket_bytes());
}

uint64_t ManifestHash(const v1::WeightManifest& manifest) {
  uint64_t hash = 0xCBF29CE484222325u;
  hash = Mix(hash, static_cast<uint64_t>(manifest.total_bytes()));
  hash = Mix(hash, static_cast<uint64_t>(manifest.bucket_bytes()));
  for (uint32_t crc : manifest.bucket_crc32c()) hash = Mix(hash, crc);
  return hash;
}

absl::Status CheckManifest(const v1::WeightManifest& manifest) {
  if (manifest.version().attempt() < 0 || manifest.version().step() < 0) return Bad("a negative version");
  if (manifest.total_bytes() <= 0 || manifest.total_bytes() > kTotalBytesMax) return Bad("total_bytes");
  if (manifest.bucket_bytes() < kAlignment || manifest.bucket_bytes() > kBucketBytesMax) return Bad("bucket_bytes");
  if (manifest.bucket_crc32c_size() != BucketCount(manifest)) {
    return Bad(std::to_string(manifest.bucket_crc32c_size()) + " checksums for " +
               std::to_string(BucketCount(manifest)) + " buckets");
  }
  for (const v1::WeightEntry& entry : manifest.entries()) {
    TROUPE_RETURN_IF_ERROR(CheckEntry(entry, manifest.total_bytes()));
  }
  return manifest.hash() == ManifestHash(manifest) ? absl::OkStatus() : Bad("its hash is not that of its checksums");
}

}  // namespace troupe
