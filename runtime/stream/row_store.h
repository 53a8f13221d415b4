// SPDX-License-Identifier: Apache-2.0
// RowStoreService: a RowShard over gRPC. RowClient: its other side. Payload goes from the shard to who needs it, by
// chunks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/stream/row_shard.h"
#include "troupe/v1/experience.grpc.pb.h"

namespace grpc {
class Channel;
}

namespace troupe {

// Target size of one chunk of rows, and the most rows of one request (the protocol's limit).
inline constexpr size_t kRowChunkBytes = 256 << 10;
inline constexpr int kRowsPerFetchMax = 4096;

// The shard must outlive the service, which may be called from any thread. Null until Attach: UNAVAILABLE.
class RowStoreService final : public v1::RowStore::Service {
 public:
  // Once, before or after the server started.
  void Attach(RowShard* shard) { shard_.store(shard); }

  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRowsRequest* request,
                     grpc::ServerWriter<v1::RowChunk>* writer) override;
  grpc::Status PutColumn(grpc::ServerContext* context, const v1::PutColumnRequest* request,
                         v1::PutColumnResponse* response) override;

 private:
  std::atomic<RowShard*> shard_{nullptr};
};

// Rows in the order asked for. UNAVAILABLE: the shard's process is away; NOT_FOUND: it has no such row.
absl::StatusOr<std::vector<v1::Row>> FetchRows(const std::shared_ptr<grpc::Channel>& channel,
                                               const std::vector<std::string>& row_ids,
                                               const std::vector<std::string>& columns, absl::Duration timeout);

absl::Status PutColumn(const std::shared_ptr<grpc::Channel>& channel, const v1::PutColumnRequest& request,
                       absl::Duration timeout);

}  // namespace troupe
