// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/weight_source_client.h"

#include <grpcpp/client_context.h>

#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "troupe/v1/weights.grpc.pb.h"

namespace troupe {

absl::Status PullSource::Pull(const v1::WeightManifest& manifest, int64_t first_bucket, Monotonic deadline,
                              const std::function<absl::Status(const v1::WeightBucket&)>& take) {
  grpc::ClientContext context;
  if (!BeginPull([&context] { context.TryCancel(); })) return absl::CancelledError("the transfer was given up");
  SetDeadline(context, deadline);
  v1::PullWeightsRequest request;
  *request.mutable_version() = manifest.version();
  request.set_hash(manifest.hash());
  request.set_first_bucket(static_cast<int32_t>(first_bucket));
  auto reader = v1::WeightSource::NewStub(channel_)->Pull(&context, request);
  v1::WeightBucket bucket;
  absl::Status taken;
  while (taken.ok() && reader->Read(&bucket)) taken = take(bucket);
  if (!taken.ok()) context.TryCancel();
  absl::Status ended = FromGrpc(reader->Finish());
  EndPull();
  return taken.ok() ? ended : taken;
}

}  // namespace troupe
