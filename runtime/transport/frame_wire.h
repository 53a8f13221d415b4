// SPDX-License-Identifier: Apache-2.0
// Frames as gRPC streams carry them: v1::Frame as protobuf, whose records and tail are sent from where they lie.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "absl/status/status.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

// Holds `frame` as long as gRPC needs its bytes.
grpc::ByteBuffer ToWire(const std::shared_ptr<const v1::Frame>& frame);
// Uses `bytes` up. INVALID_ARGUMENT: they are no frame.
absl::Status FromWire(grpc::ByteBuffer& bytes, v1::Frame& frame);

}  // namespace troupe
