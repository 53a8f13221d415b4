// SPDX-License-Identifier: Apache-2.0
// HeadClient: calls of the Head service with the token, a deadline each and errors that say what to do.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "tools/cli/options.h"
#include "troupe/v1/head.grpc.pb.h"

namespace troupe::cli {

// Of a call that only asks.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// Thread-safe. The channel stays as long as the client.
class HeadClient {
 public:
  // Reads the token and makes the channel; dials with the first call. NOT_FOUND, PERMISSION_DENIED: the token file.
  static absl::StatusOr<HeadClient> Make(const Connection& connection);
  // For a head in this process.
  HeadClient(std::shared_ptr<grpc::Channel> channel, std::string target)
      : target_(std::move(target)), stub_(v1::Head::NewStub(channel)) {}

  // A unary call: client.Call(&v1::Head::Stub::GetJob, request).
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Head::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, absl::Duration timeout = kCallTimeout) const {
    grpc::ClientContext context;
    SetTimeout(context, timeout);
    Response response;
    absl::Status status = FromGrpc((stub_.get()->*method)(&context, request, &response));
    if (!status.ok()) return Explain(status);
    return response;
  }
  v1::Head::Stub& stub() const { return *stub_; }
  const std::string& target() const { return target_; }
  // Adds what to do to UNAVAILABLE and UNAUTHENTICATED.
  absl::Status Explain(const absl::Status& status) const;

 private:
  std::string target_;
  std::shared_ptr<v1::Head::Stub> stub_;
};

// Where the token is kept unless told otherwise: ~/.config/troupe/token.
std::string DefaultTokenFile();
// HOST:PORT of the options, $TROUPE_HEAD, or the default.
std::string HeadTarget(const Connection& connection);

// The token (made when `make_token` and there is none) and the TLS files of the options.
absl::StatusOr<RpcSecurity> SecurityOf(const Connection& connection, bool make_token);

// Prints "troupe: ..." to stderr; returns the exit status that belongs to the error.
int Report(const absl::Status& status);

}  // namespace troupe::cli
