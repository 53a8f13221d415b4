// SPDX-License-Identifier: Apache-2.0
// WeightPublisher: the sending side. Writes each version once into a sealed memory file, with its checksums computed
// while copying; processes of the same node map that file, others pull its buckets over gRPC. The newest versions are
// kept.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/ids.h"
#include "runtime/base/mutex.h"
#include "runtime/object/memory_file.h"
#include "runtime/object/object_client.h"
#include "runtime/weights/manifest.h"
#include "troupe/v1/weights.grpc.pb.h"

namespace troupe {

struct WeightPublisherOptions {
  ActorLife owner;
  std::string node_id;
  std::string object_socket;  // The node's broker; "" when there is none: everybody pulls.
  size_t versions_kept = 2;   // The newest, and the one that receivers may still be fetching.
  int64_t bucket_bytes = kWeightBucketBytes;
};

// Serve it beside the actor (Actor::Services). Safe from any thread.
class WeightPublisher : public v1::WeightSource::Service {
 public:
  explicit WeightPublisher(WeightPublisherOptions options);

  // Copies `bytes`, laid out as `entries` say, and makes the version available. The manifest goes to the receivers.
  // RESOURCE_EXHAUSTED: no memory for another version. FAILED_PRECONDITION: not newer than the newest, or the newest
  // with other content; the newest with the same content returns its manifest again. When only the broker has no room
  // the version is served by pulling (its manifest has no object_id).
  absl::StatusOr<v1::WeightManifest> Publish(const v1::WeightVersion& version, std::vector<v1::WeightEntry> entries,
                                             std::span<const std::byte> bytes);

  grpc::Status GetManifest(grpc::ServerContext* context, const v1::GetManifestRequest* request,
                           v1::WeightManifest* response) override;
  grpc::Status Pull(grpc::ServerContext* context, const v1::PullWeightsRequest* request,
                    grpc::ServerWriter<v1::WeightBucket>* writer) override;

 private:
  struct Kept {
    v1::WeightManifest manifest;
    std::shared_ptr<const MemoryFile> file;
  };

  absl::Status CheckNewer(const v1::WeightManifest& manifest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OfferOnNode(const std::shared_ptr<const MemoryFile>& file, v1::WeightManifest& manifest);
  std::shared_ptr<const Kept> Find(const v1::WeightVersion& version);

  const WeightPublisherOptions options_;
  std::unique_ptr<ObjectClient> objects_;  // Null without a broker.
  Mutex publish_mutex_;                    // One Publish at a time; taken before mutex_.
  Mutex mutex_;
  std::deque<std::shared_ptr<const Kept>> kept_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
};

}  // namespace troupe
