// SPDX-License-Identifier: Apache-2.0
#include "runtime/rpc/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/rpc/callback_threads.h"
#include "runtime/rpc/keepalive.h"

namespace troupe {
namespace {

constexpr int64_t kPemBytesMax = 1 << 20;
constexpr int kReconnectFirstMs = 100;
constexpr int kReconnectMaxMs = 2'000;
// One attempt to connect, handshakes included, on a machine that is busy.
constexpr int kConnectTimeoutMs = 5'000;

// Adds the token to the metadata of each RPC of its channel.
class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(const std::string& header) : header_(header) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", header_});
    }
    methods->Proceed();
  }

 private:
  const std::string& header_;  // Of the factory, which lives as long as the channel.
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(const std::string& token) : header_("Bearer " + token) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(header_);
  }

 private:
  std::string header_;
};

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeTls(const RpcSecurity& security) {
  grpc::SslCredentialsOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.pem_root_certs, ReadFile(security.ca_file, kPemBytesMax));
  if (!security.cert_file.empty()) {
    TROUPE_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadFile(security.cert_file, kPemBytesMax));
    TROUPE_ASSIGN_OR_RETURN(options.pem_private_key, ReadFile(security.key_file, kPemBytesMax));
  }
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments MakeArguments() {
  grpc::ChannelArguments arguments;
  // Receivers set their own limits; what a server may send is bounded by its.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const RpcSecurity& security) {
  KeepCallbackThreads();
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (security.client_tls() && target.rfind("unix:", 0) != 0) {
    absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> tls = MakeTls(security);
    if (!tls.ok()) {
      return std::shared_ptr<grpc::Channel>(grpc::CreateChannelInternal(
          "",
          grpc_lame_client_channel_create(target.c_str(), GRPC_STATUS_UNAVAILABLE, StatusText(tls.status()).c_str()),
          {}));
    }
    credentials = *std::move(tls);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!security.token.empty()) interceptors.push_back(std::make_unique<TokenInterceptorFactory>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, MakeArguments(),
                                                                 std::move(interceptors));
}

void SetTimeout(grpc::ClientContext& context, absl::Duration timeout) {
  int64_t timeout_ms = absl::ToInt64Milliseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 365)));
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)));
}

void SetDeadline(grpc::ClientContext& context, Monotonic deadline) { SetTimeout(context, deadline - MonotonicNow()); }

}  // namespace troupe
