// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/exchange_wire.h"

#include "runtime/object/chunk_wire.h"

namespace troupe {
namespace {

constexpr size_t kTextBytesMax = 256;
constexpr size_t kGetChunkBytesMax = 1024;

}  // namespace

v1::PlanPullRequest ToProto(const ObjectId& id, int64_t bytes, const ChunkSwarm::Report& report) {
  v1::PlanPullRequest request;
  *request.mutable_name() = id.ToProto();
  request.set_size_bytes(bytes);
  request.mutable_arrived()->Add(report.arrived.begin(), report.arrived.end());
  request.mutable_fetching()->Add(report.fetching.begin(), report.fetching.end());
  for (const ChunkSwarm::Failure& failure : report.failed) {
    v1::FailedChunk& failed = *request.add_failed();
    failed.set_chunk(failure.chunk);
    failed.set_source(failure.source);
    failed.set_lost(failure.lost);
  }
  request.set_wanted(report.wanted);
  request.set_leaves(report.leaves);
  request.set_sequence(report.sequence);
  return request;
}

absl::StatusOr<ChunkSwarm::Report> ReportOf(const v1::PlanPullRequest& request) {
  if (ObjectId::FromProto(request.name()).process == 0 || request.size_bytes() < 0 ||
      ChunksOf(request.size_bytes()) > ChunkSwarm::kChunksMax || request.node_id().size() > kTextBytesMax ||
      request.endpoint().size() > kTextBytesMax) {
    return absl::InvalidArgumentError("a plan for an object that cannot be, or for a node that cannot be");
  }
  ChunkSwarm::Report report;
  report.node = request.node_id();
  report.sequence = request.sequence();
  report.fetching.assign(request.fetching().begin(), request.fetching().end());
  report.arrived.assign(request.arrived().begin(), request.arrived().end());
  for (const v1::FailedChunk& failed : request.failed()) {
    report.failed.push_back({failed.chunk(), failed.source(), failed.lost()});
  }
  report.wanted = request.wanted();
  report.leaves = request.leaves();
  return report;
}

absl::StatusOr<PlanCame> PlanOf(const v1::PlanPullResponse& response) {
  if (response.chunk_bytes() != kChunkBytes) {
    return absl::InvalidArgumentError("its node cuts objects into chunks of another size; it is of another version");
  }
  PlanCame plan;
  for (const v1::ChunkSource& source : response.sources()) {
    plan.fetches.push_back({source.chunk(), {source.source().node_id(), source.source().endpoint()}, source.crc32c()});
  }
  for (const v1::NodeEndpoint& other : response.others()) plan.others.push_back({other.node_id(), other.endpoint()});
  return plan;
}

grpc::ByteBuffer EncodeGetChunk(const ChunkName& name) {
  v1::GetChunkRequest get;
  *get.mutable_name() = name.id.ToProto();
  get.set_chunk(name.chunk);
  grpc::Slice slice(get.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<ChunkName> DecodeGetChunk(const grpc::ByteBuffer& request) {
  grpc::Slice bytes;
  v1::GetChunkRequest get;
  if (request.Length() > kGetChunkBytesMax || !request.DumpToSingleSlice(&bytes).ok() ||
      !get.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("a broken request for a chunk");
  }
  return ChunkName{ObjectId::FromProto(get.name()), get.chunk()};
}

}  // namespace troupe
