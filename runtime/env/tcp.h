// SPDX-License-Identifier: Apache-2.0
// TCP addresses: what a server may listen on, and why it could not.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace troupe {

// "host:port" or "[v6 address]:port".
struct TcpAddress {
  std::string host;
  int port = 0;

  // INVALID_ARGUMENT: not of that form, or the port is not 0 to 65535.
  static absl::StatusOr<TcpAddress> Parse(std::string_view text);
  // "host:port", with brackets around a v6 address.
  std::string ToString() const;
  // Whether only this machine reaches it: 127.0.0.0/8, ::1 or "localhost".
  bool IsLoopback() const;
};

// The address of this machine that packets to `remote` leave from; asks the routing table and sends nothing. NOT_FOUND:
// the name has no address; UNAVAILABLE: no route leads there.
absl::StatusOr<std::string> LocalHostTowards(const TcpAddress& remote);

// Tries to bind and lets go again: why listening fails. ALREADY_EXISTS: another process has the port; NOT_FOUND: the
// host has no address; PERMISSION_DENIED: a port below 1024.
absl::Status ProbeTcpBind(const TcpAddress& address);

}  // namespace troupe
