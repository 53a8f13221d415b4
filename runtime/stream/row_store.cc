// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/row_store.h"

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"

namespace troupe {

grpc::Status RowStoreService::Fetch(grpc::ServerContext* context, const v1::FetchRowsRequest* request,
                                    grpc::ServerWriter<v1::RowChunk>* writer) {
  RowShard* shard = shard_.load();
  if (shard == nullptr) return ToGrpc(absl::UnavailableError("the shard is being opened"));
  if (request->row_ids_size() > kRowsPerFetchMax)
    return ToGrpc(absl::ResourceExhaustedError("more than 4096 rows asked for"));
  v1::RowChunk chunk;
  size_t bytes = 0;
  auto flush = [&] {
    bool written = writer->Write(chunk);
    chunk.Clear();
    bytes = 0;
    return written && !context->IsCancelled() ? absl::OkStatus() : absl::CancelledError("the reader went away");
  };
  absl::Status status = shard->Fetch({request->row_ids().begin(), request->row_ids().end()},
                                     {request->columns().begin(), request->columns().end()}, [&](v1::Row row) {
                                       bytes += row.ByteSizeLong();
                                       *chunk.add_rows() = std::move(row);
                                       return bytes >= kRowChunkBytes ? flush() : absl::OkStatus();
                                     });
  if (status.ok() && chunk.rows_size() > 0) status = flush();
  return ToGrpc(status);
}

grpc::Status RowStoreService::PutColumn(grpc::ServerContext*, const v1::PutColumnRequest* request,
                                        v1::PutColumnResponse*) {
  RowShard* shard = shard_.load();
  if (shard == nullptr) return ToGrpc(absl::UnavailableError("the shard is being opened"));
  return ToGrpc(shard->PutColumn(*request));
}

absl::StatusOr<std::vector<v1::Row>> FetchRows(const std::shared_ptr<grpc::Channel>& channel,
                                               const std::vector<std::string>& row_ids,
                                               const std::vector<std::string>& columns, absl::Duration timeout) {
  std::unique_ptr<v1::RowStore::Stub> stub = v1::RowStore::NewStub(channel);
  std::vector<v1::Row> rows;
  for (size_t begin = 0; begin < row_ids.size(); begin += kRowsPerFetchMax) {
    size_t end = std::min(row_ids.size(), begin + kRowsPerFetchMax);
    v1::FetchRowsRequest request;
    request.mutable_row_ids()->Add(row_ids.begin() + static_cast<long>(begin),
                                   row_ids.begin() + static_cast<long>(end));
    request.mutable_columns()->Add(columns.begin(), columns.end());
    grpc::ClientContext context;
    SetTimeout(context, timeout);
    std::unique_ptr<grpc::ClientReader<v1::RowChunk>> reader = stub->Fetch(&context, request);
    v1::RowChunk chunk;
    while (reader->Read(&chunk)) {
      for (v1::Row& row : *chunk.mutable_rows()) rows.push_back(std::move(row));
    }
    TROUPE_RETURN_IF_ERROR(FromGrpc(reader->Finish()));
  }
  if (rows.size() != row_ids.size()) return absl::DataLossError("a shard answered with fewer rows than were asked for");
  return rows;
}

absl::Status PutColumn(const std::shared_ptr<grpc::Channel>& channel, const v1::PutColumnRequest& request,
                       absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::PutColumnResponse response;
  return FromGrpc(v1::RowStore::NewStub(channel)->PutColumn(&context, request, &response));
}

}  // namespace troupe
