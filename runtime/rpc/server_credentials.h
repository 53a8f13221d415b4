// SPDX-License-Identifier: Apache-2.0
// Credentials of a server that checks the token of every RPC before its handler is looked up, whatever the transport.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/rpc/security.h"

namespace troupe::internal {

// `tls`: with the certificate of `security`, read anew when the files change; else plain text.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TokenServerCredentials(const RpcSecurity& security, bool tls);

}  // namespace troupe::internal
