// SPDX-License-Identifier: Apache-2.0
// What exchanges say to each other of a pull (object_exchange.proto), checked: what comes from other nodes becomes what
// ChunkSwarm and PullState take, or an error. The chunks themselves: chunk_wire.h. Pure.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/object/chunk_swarm.h"
#include "runtime/object/object_id.h"
#include "runtime/object/pull_state.h"
#include "troupe/v1/object_exchange.pb.h"

namespace troupe {

// `bytes`: of the object. But for the node and its endpoint, which the caller knows.
v1::PlanPullRequest ToProto(const ObjectId& id, int64_t bytes, const ChunkSwarm::Report& report);
// INVALID_ARGUMENT: of an object or a node that cannot be. Chunks are for the swarm to check.
absl::StatusOr<ChunkSwarm::Report> ReportOf(const v1::PlanPullRequest& request);

// INVALID_ARGUMENT: the home cuts objects into other chunks. Which chunks are named is for PullState to check.
absl::StatusOr<PlanCame> PlanOf(const v1::PlanPullResponse& response);

struct ChunkName {
  ObjectId id;
  int64_t chunk = 0;  // Any number.
};
grpc::ByteBuffer EncodeGetChunk(const ChunkName& name);
// INVALID_ARGUMENT: it is no such request, or a large one.
absl::StatusOr<ChunkName> DecodeGetChunk(const grpc::ByteBuffer& request);

}  // namespace troupe
