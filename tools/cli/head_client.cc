// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/head_client.h"

#include <filesystem>
#include <iostream>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "runtime/rpc/channel.h"

namespace troupe::cli {

namespace {

std::string AbsolutePath(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(ExpandHome(path)).string();
}

}  // namespace

std::string DefaultTokenFile() { return ExpandHome("~/.config/troupe/token"); }

std::string HeadTarget(const Connection& connection) {
  if (!connection.head.empty()) return connection.head;
  std::string named = EnvironmentVariable("TROUPE_HEAD");
  return named.empty() ? "127.0.0.1:7400" : named;
}

absl::StatusOr<RpcSecurity> SecurityOf(const Connection& connection, bool make_token) {
  std::string file = connection.token_file.empty() ? DefaultTokenFile() : ExpandHome(connection.token_file);
  RpcSecurity security;
  absl::StatusOr<std::string> token = make_token ? Token::LoadOrCreate(file) : Token::Load(file);
  if (!token.ok()) {
    std::string hint = "no token to show the head (copy it from the head's machine, or start 'troupe head')";
    if (make_token) return token.status();
    // Whatever is wrong with it, there is nothing to be let in with.
    std::string why = MessageOf(token.status());
    return absl::UnauthenticatedError(absl::IsNotFound(token.status()) ? hint + ": " + why : why);
  }
  for (const std::string* file : {&connection.ca_file, &connection.cert_file, &connection.key_file}) {
    if (!file->empty() && !FileExists(*file)) return absl::NotFoundError("no file '" + *file + "'");
  }
  if (connection.cert_file.empty() != connection.key_file.empty()) {
    return absl::InvalidArgumentError("--cert-file and --key-file belong together");
  }
  security.token = *std::move(token);
  // Workers read them, too, from folders of their own.
  security.ca_file = AbsolutePath(connection.ca_file);
  security.cert_file = AbsolutePath(connection.cert_file);
  security.key_file = AbsolutePath(connection.key_file);
  security.insecure = connection.insecure;
  return security;
}

absl::StatusOr<HeadClient> HeadClient::Make(const Connection& connection) {
  TROUPE_ASSIGN_OR_RETURN(RpcSecurity security, SecurityOf(connection, /*make_token=*/false));
  std::string target = HeadTarget(connection);
  return HeadClient(MakeChannel(target, security), target);
}

absl::Status HeadClient::Explain(const absl::Status& status) const {
  if (status.code() == absl::StatusCode::kUnavailable) {
    return absl::UnavailableError(
        "cannot reach the head at " + target_ +
        "; is it running? ('troupe head' starts one, --head names another, --ca-file its authority if it uses TLS): " +
        MessageOf(status));
  }
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return absl::UnavailableError("what answers at " + target_ +
                                  " is no Troupe head of this version: " + MessageOf(status));
  }
  if (status.code() == absl::StatusCode::kUnauthenticated) {
    return absl::UnauthenticatedError("the head at " + target_ +
                                      " refused the token; --token-file names the right one: " + MessageOf(status));
  }
  return status;
}

int Report(const absl::Status& status) {
  std::cerr << "troupe: " << MessageOf(status) << "\n";
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    case absl::StatusCode::kPermissionDenied:  // Of a file; the head says UNAUTHENTICATED.
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return kWrongUse;
    default:
      return kJobFailed;
  }
}

}  // namespace troupe::cli
