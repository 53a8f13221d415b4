// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/weight_receiver.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/weights/manifest.h"

namespace troupe {
namespace {

// The same bucket wrong so often is no accident of the way.
constexpr int kBucketTriesMax = 3;
constexpr absl::Duration kRetryFirst = absl::Milliseconds(50);
constexpr absl::Duration kRetryMax = absl::Seconds(2);

uint32_t SumOf(const std::byte* data, int64_t size) {
  return Crc32c({reinterpret_cast<const char*>(data), static_cast<size_t>(size)});
}

bool SameContent(const v1::WeightManifest& a, const v1::WeightManifest& b) {
  return a.hash() == b.hash() && a.total_bytes() == b.total_bytes() && a.bucket_bytes() == b.bucket_bytes();
}

}  // namespace

absl::Status WeightReceiver::Prepare(const v1::WeightManifest& manifest, BucketSource& source, Monotonic deadline) {
  absl::Status begun = transfer_.Begin(manifest);
  if (absl::IsAlreadyExists(begun)) return absl::OkStatus();
  TROUPE_RETURN_IF_ERROR(begun);
  if (transfer_.next() == 0) {
    staging_.reset();
    prepared_ = nullptr;
  }
  if (transfer_.whole()) return absl::OkStatus();
  std::shared_ptr<const WeightSnapshot> old_version = serving();
  if (old_version != nullptr && SameContent(old_version->manifest, manifest)) {
    prepared_ = old_version->file;
    return VerifyMapped(*prepared_);
  }
  if (transfer_.next() == 0 && MapFromNode().ok()) return absl::OkStatus();
  return PullAll(source, deadline);
}

absl::Status WeightReceiver::MapFromNode() {
  const v1::WeightManifest& manifest = transfer_.manifest();
  if (options_.objects == nullptr || manifest.object_id().empty() || manifest.node_id() != options_.node_id) {
    return absl::NotFoundError("the version is not on this node");
  }
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const MemoryFile> file, options_.objects->Get(manifest.object_id()));
  absl::Status verified = VerifyMapped(*file);
  if (verified.ok()) {
    prepared_ = std::move(file);
  } else {
    // Begin anew: what follows is pulled.
    v1::WeightManifest again = manifest;
    transfer_.Abort();
    TROUPE_RETURN_IF_ERROR(transfer_.Begin(again));
  }
  return verified;
}

absl::Status WeightReceiver::VerifyMapped(const MemoryFile& file) {
  const v1::WeightManifest& manifest = transfer_.manifest();
  if (file.size() != manifest.total_bytes())
    return absl::DataLossError("the memory file of the weights has another size");
  while (!transfer_.whole()) {
    int64_t index = transfer_.next();
    int64_t size = BucketSize(manifest, index);
    uint32_t crc = SumOf(file.bytes().data() + index * manifest.bucket_bytes(), size);
    TROUPE_RETURN_IF_ERROR(transfer_.Accept(index, size, crc));
  }
  return absl::OkStatus();
}

absl::Status WeightReceiver::PullAll(BucketSource& source, Monotonic deadline) {
  const v1::WeightManifest& manifest = transfer_.manifest();
  if (!staging_.has_value()) {
    TROUPE_ASSIGN_OR_RETURN(staging_, MemoryFileWriter::Create("troupe-weights-staging", manifest.total_bytes()));
  }
  absl::Duration retry = kRetryFirst;
  int64_t tried_bucket = -1;
  int tries = 0;
  while (!transfer_.whole()) {
    int64_t first = transfer_.next();
    absl::Status pulled = source.Pull(manifest, first, deadline, [this](const v1::WeightBucket& b) { return Take(b); });
    if (transfer_.whole()) break;
    // An OK end before the last bucket is a break too.
    bool may_resume = pulled.ok() || absl::IsUnavailable(pulled) || absl::IsDataLoss(pulled);
    if (!may_resume) return pulled;
    if (absl::IsDataLoss(pulled)) {
      tries = tried_bucket == transfer_.next() ? tries + 1 : 1;
      tried_bucket = transfer_.next();
      if (tries >= kBucketTriesMax) return pulled;
    }
    retry = transfer_.next() > first ? kRetryFirst : std::min(2 * retry, kRetryMax);
    if (MonotonicNow() + retry >= deadline) {
      return absl::DeadlineExceededError("the weights " + VersionText(manifest.version()) +
                                         " did not arrive in time (" + std::to_string(transfer_.next()) + " of " +
                                         std::to_string(BucketCount(manifest)) + " buckets): " + StatusText(pulled));
    }
    if (source.WaitCancelled(MonotonicNow() + retry)) {
      return absl::CancelledError("the transfer of weights " + VersionText(manifest.version()) +
                                  " was given up: " + StatusText(pulled));
    }
  }
  absl::StatusOr<std::shared_ptr<const MemoryFile>> sealed = std::move(*staging_).Seal();
  if (!sealed.ok()) {
    Abort();
    return sealed.status();
  }
  prepared_ = *std::move(sealed);
  staging_.reset();
  return absl::OkStatus();
}

absl::Status WeightReceiver::Take(const v1::WeightBucket& bucket) {
  auto size = static_cast<int64_t>(bucket.data().size());
  int64_t index = bucket.index();
  // Written only when it is good: the sum is of the bytes as they came.
  TROUPE_RETURN_IF_ERROR(transfer_.Accept(index, size, Crc32c(bucket.data())));
  std::memcpy(staging_->bytes().data() + index * transfer_.manifest().bucket_bytes(), bucket.data().data(),
              bucket.data().size());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const WeightSnapshot>> WeightReceiver::Commit(const v1::WeightVersion& version) {
  std::shared_ptr<const WeightSnapshot> current = serving();
  if (current != nullptr && VersionEqual(current->manifest.version(), version)) return current;
  if (prepared_ == nullptr || !transfer_.open()) {
    return absl::FailedPreconditionError("weights " + VersionText(version) + " are not prepared");
  }
  auto snapshot = std::make_shared<const WeightSnapshot>(WeightSnapshot{transfer_.manifest(), prepared_});
  TROUPE_RETURN_IF_ERROR(transfer_.Commit(version));
  prepared_ = nullptr;
  MutexLock lock(mutex_);
  serving_ = snapshot;
  return snapshot;
}

void WeightReceiver::Abort() {
  transfer_.Abort();
  staging_.reset();
  prepared_ = nullptr;
}

std::shared_ptr<const WeightSnapshot> WeightReceiver::serving() const {
  MutexLock lock(mutex_);
  return serving_;
}

}  // namespace troupe
