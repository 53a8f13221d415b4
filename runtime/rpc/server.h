// SPDX-License-Identifier: Apache-2.0
// RpcServer: the one way to serve gRPC. Every RPC of every service needs the token (UNAUTHENTICATED otherwise);
// addresses that other machines reach need TLS or the explicit insecure flag; every limit is set.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/env/tcp.h"
#include "runtime/rpc/security.h"

namespace troupe {

struct RpcLimits {
  int message_bytes_max =
      16 << 20;  // A longer message is RESOURCE_EXHAUSTED; payload travels in chunks of up to 1 MiB.
  int64_t memory_bytes_max = 1 << 30;  // gRPC's own buffers of all connections together; full means back-pressure.
  int threads_max = 256;               // Of gRPC's synchronous handlers.
  int streams_max = 1024;              // Open RPCs on one connection; more wait.
};

struct RpcServerOptions {
  // "host:port" (port 0: any free one) and "unix:/path" (mode 0600; a path that nobody serves any more is replaced).
  std::vector<std::string> addresses = {"127.0.0.1:0"};
  RpcSecurity security;
  RpcLimits limits;
};

// FAILED_PRECONDITION: other machines reach the address, and `security` has neither TLS nor `insecure`.
absl::Status CheckServable(const TcpAddress& address, const RpcSecurity& security);

class RpcServer {
 public:
  // Listens when it returns. The services stay the caller's and outlive the server.
  // ALREADY_EXISTS: an address is taken (the message names it). FAILED_PRECONDITION: an address that other machines
  // reach, without TLS and without `insecure`. INVALID_ARGUMENT: no token, no service, a malformed address, a broken
  // PEM file.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                          const std::vector<grpc::Service*>& services);
  // Shutdown(0).
  ~RpcServer();

  // In the order of `addresses`; 0 for Unix sockets.
  const std::vector<int>& ports() const { return ports_; }

  // Takes no new RPCs, lets running ones end for `grace`, then cancels them; returns when all handlers have returned.
  void Shutdown(absl::Duration grace);

 private:
  RpcServer(std::unique_ptr<grpc::Server> server, std::vector<int> ports)
      : server_(std::move(server)), ports_(std::move(ports)) {}

  std::unique_ptr<grpc::Server> server_;
  std::vector<int> ports_;
};

}  // namespace troupe
