// SPDX-License-Identifier: Apache-2.0
#include "runtime/rpc/server.h"

#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include "runtime/base/status.h"
#include "runtime/env/tcp.h"
#include "runtime/env/unix_socket.h"
#include "runtime/rpc/callback_threads.h"
#include "runtime/rpc/keepalive.h"
#include "runtime/rpc/server_credentials.h"

namespace troupe {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

bool IsUnix(const std::string& address) { return address.rfind(kUnixScheme, 0) == 0; }
std::string UnixPath(const std::string& address) { return address.substr(kUnixScheme.size()); }

absl::Status CheckAddress(const std::string& address, const RpcSecurity& security) {
  if (IsUnix(address)) {
    // gRPC would take a socket file away from the process that serves it.
    if (!UnixListener::IsServed(UnixPath(address), UnixSocketKind::kStream)) return absl::OkStatus();
    return absl::AlreadyExistsError("another process listens on " + UnixPath(address));
  }
  TROUPE_ASSIGN_OR_RETURN(TcpAddress tcp, TcpAddress::Parse(address));
  return CheckServable(tcp, security);
}

// gRPC only says that it failed; the system says why.
absl::Status WhyNotListening(const std::vector<std::string>& addresses, const std::vector<int>& ports) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (ports[i] > 0) continue;
    if (IsUnix(addresses[i])) {
      TROUPE_RETURN_IF_ERROR(UnixListener::Listen(UnixPath(addresses[i]), UnixSocketKind::kStream).status());
    } else {
      absl::StatusOr<TcpAddress> tcp = TcpAddress::Parse(addresses[i]);
      if (tcp.ok()) TROUPE_RETURN_IF_ERROR(ProbeTcpBind(*tcp));
    }
  }
  return absl::InternalError("gRPC could not start the server");
}

void SetLimits(const RpcLimits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(limits.message_bytes_max);
  builder.SetMaxSendMessageSize(limits.message_bytes_max);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_max);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveTimeMs / 2);
  grpc::ResourceQuota quota("troupe");
  quota.Resize(static_cast<size_t>(limits.memory_bytes_max)).SetMaxThreads(limits.threads_max);
  builder.SetResourceQuota(quota);
}

}  // namespace

absl::Status CheckServable(const TcpAddress& address, const RpcSecurity& security) {
  if (address.IsLoopback() || security.server_tls() || security.insecure) return absl::OkStatus();
  return absl::FailedPreconditionError(address.ToString() +
                                       " can be reached by other machines: give --cert-file and --key-file for TLS, or "
                                       "--insecure if the network is trusted");
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                            const std::vector<grpc::Service*>& services) {
  if (options.addresses.empty()) return absl::InvalidArgumentError("a server needs an address");
  if (services.empty()) return absl::InvalidArgumentError("a server needs a service");
  for (const std::string& address : options.addresses) {
    TROUPE_RETURN_IF_ERROR(CheckAddress(address, options.security));
  }
  KeepCallbackThreads();
  grpc::ServerBuilder builder;
  SetLimits(options.limits, builder);
  std::vector<int> ports(options.addresses.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    bool tls = options.security.server_tls() && !IsUnix(options.addresses[i]);
    TROUPE_ASSIGN_OR_RETURN(auto credentials, internal::TokenServerCredentials(options.security, tls));
    builder.AddListeningPort(options.addresses[i], credentials, &ports[i]);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return WhyNotListening(options.addresses, ports);
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!IsUnix(options.addresses[i])) continue;
    ::chmod(UnixPath(options.addresses[i]).c_str(), 0600);
    ports[i] = 0;
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(server), std::move(ports)));
}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

void RpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  server_->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(absl::ToInt64Milliseconds(grace), GPR_TIMESPAN)));
  server_->Wait();
  server_ = nullptr;
}

}  // namespace troupe
