// SPDX-License-Identifier: Apache-2.0
// gRPC's C++ wrapper refuses a metadata processor on plain-text credentials, although the core below runs it for every
// kind (in the auth filter, ahead of dispatch). So these credentials are made from the core's public C interface.
#include "runtime/rpc/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <string>
#include <string_view>

#include "runtime/base/check.h"
#include "runtime/base/secret.h"
#include "runtime/base/status.h"
#include "runtime/env/file.h"

namespace troupe::internal {
namespace {

constexpr std::string_view kHeader = "authorization";
constexpr std::string_view kScheme = "Bearer ";
constexpr int64_t kPemBytesMax = 1 << 20;
// How often the certificate files are looked at for a rotation.
constexpr unsigned kCertificateRefreshSeconds = 10;

std::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// The core's metadata processor; `state` is the expected token, owned here.
void CheckToken(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                grpc_process_auth_metadata_done_cb done, void* user_data) {
  const auto& expected = *static_cast<const std::string*>(state);
  const char* fault = "no token: send 'authorization: Bearer TOKEN'";
  for (size_t i = 0; i < count; ++i) {
    if (View(metadata[i].key) != kHeader) continue;
    std::string_view value = View(metadata[i].value);
    if (value.starts_with(kScheme) && EqualInConstantTime(value.substr(kScheme.size()), expected)) {
      // Consumed: handlers never see the secret.
      done(user_data, &metadata[i], 1, nullptr, 0, GRPC_STATUS_OK, nullptr);
      return;
    }
    fault = "wrong token: use the token file of this head (--token-file)";
  }
  done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED, fault);
}

void DeleteToken(void* state) { delete static_cast<std::string*>(state); }

class CoreServerCredentials final : public grpc::ServerCredentials {
 public:
  CoreServerCredentials(grpc_server_credentials* credentials, const std::string& token) : credentials_(credentials) {
    grpc_auth_metadata_processor processor = {&CheckToken, &DeleteToken, new std::string(token)};
    grpc_server_credentials_set_auth_metadata_processor(credentials_, processor);
  }
  ~CoreServerCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    TROUPE_CHECK(false, "the token is checked already; nothing else may take its place");
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_;
};

absl::Status CheckPem(const std::string& path, std::string_view what) {
  absl::StatusOr<std::string> content = ReadFile(path, kPemBytesMax);
  if (!content.ok()) return Annotate(content.status(), what);
  if (content->find("-----BEGIN ") == std::string::npos) {
    return absl::InvalidArgumentError(std::string(what) + ": " + path + " is no PEM file");
  }
  return absl::OkStatus();
}

absl::StatusOr<grpc_server_credentials*> MakeTls(const RpcSecurity& security) {
  TROUPE_RETURN_IF_ERROR(CheckPem(security.cert_file, "the certificate"));
  TROUPE_RETURN_IF_ERROR(CheckPem(security.key_file, "the key"));
  bool check_clients = !security.ca_file.empty();
  if (check_clients) TROUPE_RETURN_IF_ERROR(CheckPem(security.ca_file, "the authority"));
  grpc_tls_certificate_provider* provider = grpc_tls_certificate_provider_file_watcher_create(
      security.key_file.c_str(), security.cert_file.c_str(), check_clients ? security.ca_file.c_str() : nullptr,
      kCertificateRefreshSeconds);
  grpc_tls_credentials_options* options = grpc_tls_credentials_options_create();
  grpc_tls_credentials_options_set_certificate_provider(options, provider);
  grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
  if (check_clients) grpc_tls_credentials_options_watch_root_certs(options);
  grpc_tls_credentials_options_set_cert_request_type(options, check_clients
                                                                  ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                                                  : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  grpc_server_credentials* credentials = grpc_tls_server_credentials_create(options);
  grpc_tls_certificate_provider_release(provider);
  if (credentials == nullptr) return absl::InvalidArgumentError("gRPC refuses the TLS options");
  return credentials;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TokenServerCredentials(const RpcSecurity& security, bool tls) {
  if (!Token::IsWellFormed(security.token)) {
    return absl::InvalidArgumentError("a server needs a token of 64 hex digits: every RPC is checked");
  }
  grpc_server_credentials* core = nullptr;
  if (tls) {
    TROUPE_ASSIGN_OR_RETURN(core, MakeTls(security));
  } else {
    core = grpc_insecure_server_credentials_create();
  }
  return std::shared_ptr<grpc::ServerCredentials>(new CoreServerCredentials(core, security.token));
}

}  // namespace troupe::internal
