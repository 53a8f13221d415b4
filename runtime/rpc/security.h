// SPDX-License-Identifier: Apache-2.0
// RpcSecurity: what one process needs to serve and to call. Token: the secret that every RPC carries.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace troupe {

struct RpcSecurity {
  std::string token;  // 64 lower-case hex digits; never empty on a server. Never logged.
  std::string
      ca_file;  // PEM. A client trusts servers signed by it; a server checks the client certificates it is shown.
  std::string cert_file;  // PEM chain; with key_file it makes a server speak TLS on its TCP addresses.
  std::string key_file;   // PEM.
  bool insecure = false;  // Allows addresses that other machines reach without TLS.

  bool server_tls() const { return !cert_file.empty(); }
  bool client_tls() const { return !ca_file.empty(); }
};

// 256 random bits as text.
struct Token {
  static std::string Generate();

  // The token of a file, which is made with mode 0600 (and its folder with 0700) when there is none. Of several
  // processes that start at once all get the same one. UNAUTHENTICATED: others may read the file, or it is another
  // user's. INVALID_ARGUMENT: its content is no token.
  static absl::StatusOr<std::string> LoadOrCreate(const std::string& path);
  // The same without making one: NOT_FOUND.
  static absl::StatusOr<std::string> Load(const std::string& path);

  // Reads it to the end from an inherited descriptor and closes that.
  static absl::StatusOr<std::string> FromDescriptor(int fd);

  static bool IsWellFormed(const std::string& token);
};

}  // namespace troupe
