// SPDX-License-Identifier: Apache-2.0
// MakeChannel: the one way to call gRPC. The channel adds the token to every RPC, speaks TLS when the security has an
// authority, keeps the connection alive, and sends nothing twice (no retries, no hedging, no proxy).
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "runtime/base/monotonic.h"
#include "runtime/rpc/security.h"

namespace troupe {

// `target`: "host:port" or "unix:/path" (never TLS). Connects at the first RPC, and again with backoff (100 ms to 2 s)
// after a break; RPCs meanwhile fail with UNAVAILABLE unless they wait for ready. When the PEM files cannot be read
// every RPC fails with UNAVAILABLE and that reason.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const RpcSecurity& security);

// Deadlines on the steady clock: the wall clock may jump.
void SetTimeout(grpc::ClientContext& context, absl::Duration timeout);
void SetDeadline(grpc::ClientContext& context, Monotonic deadline);

}  // namespace troupe
