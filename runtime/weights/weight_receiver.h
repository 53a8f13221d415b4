// SPDX-License-Identifier: Apache-2.0
// WeightReceiver: brings versions of the weights here while the old one serves, and swaps them at the commit.
//
//   Prepare (long: overlaps with generation): on the publisher's node the memory file is mapped and verified; elsewhere
//   the buckets are pulled, each verified, and a transfer that broke is resumed at its first missing bucket. Commit
//   (short): the prepared version serves. A version is never visible by halves.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"
#include "runtime/base/mutex.h"
#include "runtime/object/memory_file.h"
#include "runtime/object/object_client.h"
#include "runtime/weights/bucket_source.h"
#include "runtime/weights/weight_transfer.h"
#include "troupe/v1/weights.pb.h"

namespace troupe {

// One whole version, immutable; its bytes live as long as somebody holds it.
struct WeightSnapshot {
  v1::WeightManifest manifest;
  std::shared_ptr<const MemoryFile> file;

  std::span<const std::byte> bytes() const { return file->bytes(); }
};

struct WeightReceiverOptions {
  std::string node_id;              // Of this process.
  ObjectClient* objects = nullptr;  // The node's broker; null: always pull. Outlives the receiver.
};

// Prepare, Commit and Abort from one thread at a time; serving() from any.
class WeightReceiver {
 public:
  explicit WeightReceiver(WeightReceiverOptions options) : options_(std::move(options)) {}

  // After OK the version is whole here; before, and after an error, the old one serves and nothing else changed. A
  // transfer that failed with UNAVAILABLE, CANCELLED or DEADLINE_EXCEEDED is resumed by the next Prepare of the same
  // manifest. CANCELLED: `source` was. DATA_LOSS: a bucket was wrong three times. Other errors as of
  // WeightTransfer::Begin and BucketSource::Pull. OK at once when that version serves or is prepared already.
  absl::Status Prepare(const v1::WeightManifest& manifest, BucketSource& source, Monotonic deadline);

  // The prepared version serves from now on. FAILED_PRECONDITION: it is not prepared. OK again when it serves already.
  absl::StatusOr<std::shared_ptr<const WeightSnapshot>> Commit(const v1::WeightVersion& version);

  // Gives up what was prepared or begun.
  void Abort();

  // Null before the first commit.
  std::shared_ptr<const WeightSnapshot> serving() const;

 private:
  absl::Status MapFromNode();
  absl::Status PullAll(BucketSource& source, Monotonic deadline);
  absl::Status Take(const v1::WeightBucket& bucket);
  absl::Status VerifyMapped(const MemoryFile& file);

  const WeightReceiverOptions options_;
  WeightTransfer transfer_;
  std::optional<MemoryFileWriter> staging_;     // Buckets that were pulled.
  std::shared_ptr<const MemoryFile> prepared_;  // Whole and verified.
  mutable Mutex mutex_;
  std::shared_ptr<const WeightSnapshot> serving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace troupe
