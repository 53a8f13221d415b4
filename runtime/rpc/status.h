// SPDX-License-Identifier: Apache-2.0
// The one place where gRPC's status, absl's and the ErrorStatus of the wire are turned into each other. The three share
// their codes.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "troupe/v1/common.pb.h"

namespace troupe {

absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// Whether the status of an RPC that could not begin says that the machine is there and nobody listens.
bool NobodyListens(const absl::Status& status);

// A code that no absl::StatusCode has becomes UNKNOWN.
absl::Status FromErrorStatus(const v1::ErrorStatus& status);
v1::ErrorStatus ToErrorStatus(const absl::Status& status);

}  // namespace troupe
