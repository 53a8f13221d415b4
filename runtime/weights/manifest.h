// SPDX-License-Identifier: Apache-2.0
// The manifest of one version of the weights: which buckets it has and what they hold. Pure functions.
//
// hash: 64-bit FNV-1a over total_bytes, bucket_bytes and each bucket's crc32c, all as 8 little-endian bytes. It names
// the content, not the version: a version that was trained again deterministically has the same hash and is not sent
// again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "troupe/v1/weights.pb.h"

namespace troupe {

// One message of a transfer: 64 KiB to 1 MiB (larger ones gain nothing and cost the allocator).
inline constexpr int64_t kWeightBucketBytes = 1 << 20;

// Of versions, in their order.
bool VersionLess(const v1::WeightVersion& a, const v1::WeightVersion& b);
bool VersionEqual(const v1::WeightVersion& a, const v1::WeightVersion& b);
// "(attempt 0, step 5)"
std::string VersionText(const v1::WeightVersion& version);

// Buckets of a version: all have bucket_bytes but the last.
int64_t BucketCount(const v1::WeightManifest& manifest);
int64_t BucketSize(const v1::WeightManifest& manifest, int64_t index);

uint64_t ManifestHash(const v1::WeightManifest& manifest);

// INVALID_ARGUMENT: sizes, counts, entries or the hash do not fit together (the message says which). Every offset and
// size of a manifest that passed lies within total_bytes.
absl::Status CheckManifest(const v1::WeightManifest& manifest);

}  // namespace troupe
