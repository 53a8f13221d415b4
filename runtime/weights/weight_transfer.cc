// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/weight_transfer.h"

#include "runtime/base/status.h"
#include "runtime/weights/manifest.h"

namespace troupe {

absl::Status WeightTransfer::Begin(const v1::WeightManifest& manifest) {
  TROUPE_RETURN_IF_ERROR(CheckManifest(manifest));
  const v1::WeightVersion& version = manifest.version();
  if (serving_.has_value()) {
    if (version.attempt() < serving_->attempt()) {
      return absl::AbortedError("weights " + VersionText(version) + " are of an older attempt than " +
                                VersionText(*serving_) + ", which serves");
    }
    if (VersionEqual(version, *serving_)) {
      return absl::AlreadyExistsError("weights " + VersionText(version) + " serve already");
    }
    if (VersionLess(version, *serving_)) {
      return absl::FailedPreconditionError("weights " + VersionText(version) + " are older than " +
                                           VersionText(*serving_) + ", which serve");
    }
  }
  bool same = open() && VersionEqual(manifest_->version(), version) && manifest_->hash() == manifest.hash();
  if (!same) next_ = 0;
  manifest_ = manifest;
  return absl::OkStatus();
}

absl::Status WeightTransfer::Accept(int64_t index, int64_t size, uint32_t crc32c) {
  if (!open()) return absl::FailedPreconditionError("no transfer of weights is open");
  if (whole() || index != next_) {
    return absl::OutOfRangeError("bucket " + std::to_string(index) + " came where " + std::to_string(next_) +
                                 " was due");
  }
  if (size != BucketSize(*manifest_, index)) {
    return absl::DataLossError("bucket " + std::to_string(index) + " has " + std::to_string(size) + " bytes, not " +
                               std::to_string(BucketSize(*manifest_, index)));
  }
  if (crc32c != manifest_->bucket_crc32c(static_cast<int>(index))) {
    return absl::DataLossError("the checksum of bucket " + std::to_string(index) + " of weights " +
                               VersionText(manifest_->version()) + " is wrong");
  }
  ++next_;
  return absl::OkStatus();
}

bool WeightTransfer::whole() const { return open() && next_ == BucketCount(*manifest_); }

absl::Status WeightTransfer::Commit(const v1::WeightVersion& version) {
  if (!open() || !VersionEqual(manifest_->version(), version)) {
    return absl::FailedPreconditionError("weights " + VersionText(version) + " were not begun");
  }
  if (!whole()) {
    return absl::FailedPreconditionError("weights " + VersionText(version) +
                                         " are not whole: " + std::to_string(next_) + " of " +
                                         std::to_string(BucketCount(*manifest_)) + " buckets are here");
  }
  serving_ = version;
  Abort();
  return absl::OkStatus();
}

void WeightTransfer::Abort() {
  manifest_.reset();
  next_ = 0;
}

}  // namespace troupe
