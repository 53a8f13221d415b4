// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/weight_publisher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

// Copied and then summed while it is still in the nearest cache.
constexpr int64_t kCopyStepBytes = 16 << 10;

uint32_t CopyAndSum(const std::byte* from, std::byte* to, int64_t size) {
  uint32_t crc = 0;
  for (int64_t done = 0; done < size; done += kCopyStepBytes) {
    auto step = static_cast<size_t>(std::min(kCopyStepBytes, size - done));
    std::memcpy(to + done, from + done, step);
    crc = Crc32c({reinterpret_cast<const char*>(to + done), step}, crc);
  }
  return crc;
}

}  // namespace

WeightPublisher::WeightPublisher(WeightPublisherOptions options) : options_(std::move(options)) {
  if (!options_.object_socket.empty()) {
    objects_ = std::make_unique<ObjectClient>(options_.object_socket, options_.owner);
  }
}

absl::StatusOr<v1::WeightManifest> WeightPublisher::Publish(const v1::WeightVersion& version,
                                                            std::vector<v1::WeightEntry> entries,
                                                            std::span<const std::byte> bytes) {
  MutexLock publish_lock(publish_mutex_);
  auto total_bytes = static_cast<int64_t>(bytes.size());
  TROUPE_ASSIGN_OR_RETURN(MemoryFileWriter writer, MemoryFileWriter::Create("troupe-weights", total_bytes));
  v1::WeightManifest manifest;
  *manifest.mutable_version() = version;
  manifest.set_total_bytes(total_bytes);
  manifest.set_bucket_bytes(options_.bucket_bytes);
  manifest.mutable_entries()->Assign(std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()));
  for (int64_t index = 0; index < BucketCount(manifest); ++index) {
    int64_t offset = index * manifest.bucket_bytes();
    manifest.add_bucket_crc32c(
        CopyAndSum(bytes.data() + offset, writer.bytes().data() + offset, BucketSize(manifest, index)));
  }
  manifest.set_hash(ManifestHash(manifest));
  TROUPE_RETURN_IF_ERROR(CheckManifest(manifest));
  {
    MutexLock lock(mutex_);
    if (!kept_.empty() && VersionEqual(kept_.back()->manifest.version(), version) &&
        kept_.back()->manifest.hash() == manifest.hash()) {
      return kept_.back()->manifest;
    }
    TROUPE_RETURN_IF_ERROR(CheckNewer(manifest));
  }
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const MemoryFile> file, std::move(writer).Seal());
  OfferOnNode(file, manifest);
  std::vector<std::string> evicted;
  {
    MutexLock lock(mutex_);
    kept_.push_back(std::make_shared<const Kept>(Kept{manifest, std::move(file)}));
    for (; kept_.size() > std::max<size_t>(options_.versions_kept, 1); kept_.pop_front()) {
      evicted.push_back(kept_.front()->manifest.object_id());
    }
  }
  for (const std::string& id : evicted) {
    // An object that could not be dropped goes with this process' life.
    if (!id.empty()) (void)objects_->Drop(id);
  }
  return manifest;
}

absl::Status WeightPublisher::CheckNewer(const v1::WeightManifest& manifest) {
  if (kept_.empty() || VersionLess(kept_.back()->manifest.version(), manifest.version())) return absl::OkStatus();
  return absl::FailedPreconditionError("weights " + VersionText(manifest.version()) + " are not newer than " +
                                       VersionText(kept_.back()->manifest.version()) + ", which were published");
}

void WeightPublisher::OfferOnNode(const std::shared_ptr<const MemoryFile>& file, v1::WeightManifest& manifest) {
  if (objects_ == nullptr) return;
  std::string id = "weights/" + options_.owner.ToString() + "/" + std::to_string(manifest.version().attempt()) + "-" +
                   std::to_string(manifest.version().step());
  if (!objects_->Put(id, file).ok()) return;  // Receivers pull instead.
  manifest.set_object_id(id);
  manifest.set_node_id(options_.node_id);
}

std::shared_ptr<const WeightPublisher::Kept> WeightPublisher::Find(const v1::WeightVersion& version) {
  MutexLock lock(mutex_);
  for (const auto& kept : kept_) {
    if (VersionEqual(kept->manifest.version(), version)) return kept;
  }
  return nullptr;
}

grpc::Status WeightPublisher::GetManifest(grpc::ServerContext*, const v1::GetManifestRequest* request,
                                          v1::WeightManifest* response) {
  std::shared_ptr<const Kept> kept = Find(request->version());
  if (kept != nullptr) {
    *response = kept->manifest;
    return grpc::Status::OK;
  }
  MutexLock lock(mutex_);
  return grpc::Status(grpc::StatusCode::NOT_FOUND,
                      "weights " + VersionText(request->version()) + " are not kept; the newest are " +
                          (kept_.empty() ? "none" : VersionText(kept_.back()->manifest.version())));
}

grpc::Status WeightPublisher::Pull(grpc::ServerContext* context, const v1::PullWeightsRequest* request,
                                   grpc::ServerWriter<v1::WeightBucket>* writer) {
  std::shared_ptr<const Kept> kept = Find(request->version());
  if (kept == nullptr || kept->manifest.hash() != request->hash()) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND,
                        "weights " + VersionText(request->version()) + " with that hash are not kept (any more)");
  }
  int64_t count = BucketCount(kept->manifest);
  if (request->first_bucket() < 0 || request->first_bucket() > count) {
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "there are " + std::to_string(count) + " buckets");
  }
  v1::WeightBucket bucket;
  for (int64_t index = request->first_bucket(); index < count && !context->IsCancelled(); ++index) {
    const std::byte* data = kept->file->bytes().data() + index * kept->manifest.bucket_bytes();
    bucket.set_index(static_cast<int32_t>(index));
    bucket.set_crc32c(kept->manifest.bucket_crc32c(static_cast<int>(index)));
    bucket.set_data(data, static_cast<size_t>(BucketSize(kept->manifest, index)));
    if (!writer->Write(bucket)) return grpc::Status(grpc::StatusCode::CANCELLED, "the receiver has gone");
  }
  return grpc::Status::OK;
}

}  // namespace troupe
