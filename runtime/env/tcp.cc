// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/tcp.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/env/errno_status.h"
#include "runtime/env/unique_fd.h"

namespace troupe {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const TcpAddress& address, int type, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return absl::NotFoundError(address.host + ": " + ::gai_strerror(error));
  return AddressList(found, &::freeaddrinfo);
}

}  // namespace

absl::StatusOr<TcpAddress> TcpAddress::Parse(std::string_view text) {
  size_t colon = text.rfind(':');
  TcpAddress address;
  if (colon != std::string_view::npos && colon > 0) {
    std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
    bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    bool port_good = error == std::errc() && end == port.data() + port.size() && !port.empty() && address.port >= 0 &&
                     address.port <= 65535;
    address.host = std::string(host);
    if (port_good && (bracketed || host.find(':') == std::string_view::npos)) return address;
  }
  return absl::InvalidArgumentError("'" + std::string(text) + "' is no address: expected HOST:PORT, port 0 to 65535");
}

std::string TcpAddress::ToString() const {
  bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool TcpAddress::IsLoopback() const {
  if (host == "localhost") return true;
  in_addr v4;
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<std::string> LocalHostTowards(const TcpAddress& remote) {
  TROUPE_ASSIGN_OR_RETURN(const AddressList found, Resolve(remote, SOCK_DGRAM, 0));
  UniqueFd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket");
  sockaddr_storage local = {};
  socklen_t size = sizeof(local);
  char host[NI_MAXHOST];
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&local), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return absl::UnavailableError("no way leads from this machine to " + remote.ToString());
  }
  return std::string(host);
}

absl::Status ProbeTcpBind(const TcpAddress& address) {
  TROUPE_ASSIGN_OR_RETURN(const AddressList found, Resolve(address, SOCK_STREAM, AI_PASSIVE));
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket");
  int on = 1;  // As gRPC does: a port in TIME_WAIT is free, a served one is not.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), 1) != 0) {
    return ErrnoStatus(errno, "cannot listen on " + address.ToString());
  }
  return absl::OkStatus();
}

}  // namespace troupe
