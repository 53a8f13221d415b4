// SPDX-License-Identifier: Apache-2.0
// PullSource: buckets from a publisher in another process, over gRPC.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "runtime/weights/bucket_source.h"

namespace troupe {

class PullSource : public BucketSource {
 public:
  explicit PullSource(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::Status Pull(const v1::WeightManifest& manifest, int64_t first_bucket, Monotonic deadline,
                    const std::function<absl::Status(const v1::WeightBucket&)>& take) override;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace troupe
