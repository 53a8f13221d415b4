// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/errno_status.h"

namespace troupe {
namespace {

int TypeOf(UnixSocketKind kind) { return kind == UnixSocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET; }

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("a Unix socket's path has 1 to " + std::to_string(sizeof(address.sun_path) - 1) +
                                      " bytes, this one " + std::to_string(path.size()) + ": " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The control buffer of one message with up to kDescriptorsInPacketMax descriptors.
struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kDescriptorsInPacketMax)];
};

void PutDescriptors(const std::vector<int>& fds, ControlBuffer& control, msghdr& message) {
  if (fds.empty()) return;
  std::memset(&control, 0, sizeof(control));
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
}

// Takes every descriptor at once, so that none is lost whatever else is wrong with the packet.
std::vector<UniqueFd> TakeDescriptors(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

bool WouldBlock(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

// How many of the entries have something; 0 at the deadline.
absl::StatusOr<int> Poll(pollfd* entries, size_t count, Monotonic deadline) {
  while (true) {
    absl::Duration left = std::clamp(deadline - MonotonicNow(), absl::ZeroDuration(), absl::Minutes(1));
    int64_t left_ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    int ready = ::poll(entries, count, static_cast<int>(left_ms));
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "cannot wait for a socket");
    if (MonotonicNow() >= deadline) return 0;
  }
}

}  // namespace

absl::StatusOr<short> WaitForDescriptor(int fd, short events, Monotonic deadline) {
  pollfd entry = {fd, events, 0};
  TROUPE_ASSIGN_OR_RETURN(int ready, Poll(&entry, 1, deadline));
  if (ready == 0) return absl::DeadlineExceededError("nothing came on the socket in time");
  return entry.revents;
}

absl::StatusOr<std::vector<size_t>> WaitForAny(const std::vector<int>& fds, Monotonic deadline) {
  std::vector<pollfd> entries;
  for (int fd : fds) entries.push_back({fd, POLLIN, 0});
  TROUPE_RETURN_IF_ERROR(Poll(entries.data(), entries.size(), deadline).status());
  std::vector<size_t> ready;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) ready.push_back(i);
  }
  return ready;
}

absl::StatusOr<UnixSocket> UnixSocket::Connect(const std::string& path, UnixSocketKind kind) {
  TROUPE_ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  UniqueFd fd(::socket(AF_UNIX, TypeOf(kind) | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "cannot connect to " + path);
  }
  return UnixSocket(std::move(fd));
}

absl::StatusOr<std::pair<UnixSocket, UnixSocket>> UnixSocket::Pair(UnixSocketKind kind) {
  int fds[2];
  if (::socketpair(AF_UNIX, TypeOf(kind) | SOCK_CLOEXEC, 0, fds) != 0) {
    return ErrnoStatus(errno, "cannot make a pair of sockets");
  }
  return std::make_pair(UnixSocket(UniqueFd(fds[0])), UnixSocket(UniqueFd(fds[1])));
}

absl::Status UnixSocket::Send(std::string_view bytes, const std::vector<int>& fds, Monotonic deadline) {
  if (fds.size() > kDescriptorsInPacketMax || bytes.empty()) {
    return absl::InvalidArgumentError("a packet carries at least one byte and at most 64 descriptors");
  }
  std::vector<int> left_fds = fds;
  while (!bytes.empty()) {
    iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ControlBuffer control;
    PutDescriptors(left_fds, control, message);
    ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      left_fds.clear();
    } else if (WouldBlock(errno)) {
      TROUPE_RETURN_IF_ERROR(WaitForDescriptor(fd_.get(), POLLOUT, deadline).status());
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "cannot send " + std::to_string(bytes.size()) + " bytes on a Unix socket");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixPacket> UnixSocket::Receive(size_t bytes_max, Monotonic deadline) {
  UnixPacket packet;
  packet.bytes.resize(bytes_max);
  while (true) {
    iovec part = {packet.bytes.data(), packet.bytes.size()};
    ControlBuffer control;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    ssize_t got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && WouldBlock(errno)) {
      TROUPE_RETURN_IF_ERROR(WaitForDescriptor(fd_.get(), POLLIN, deadline).status());
      continue;
    }
    if (got < 0) return ErrnoStatus(errno, "cannot receive on a Unix socket");
    packet.fds = TakeDescriptors(message);
    if (got == 0) return absl::UnavailableError("the peer closed the Unix socket");
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
      return absl::ResourceExhaustedError("a packet is longer than the " + std::to_string(bytes_max) +
                                          " bytes and 64 descriptors allowed");
    }
    packet.bytes.resize(static_cast<size_t>(got));
    return packet;
  }
}

absl::StatusOr<PeerCredentials> UnixSocket::Credentials() const {
  ucred credentials;
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ErrnoStatus(errno, "cannot ask who is on the other side of a Unix socket");
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

void UnixSocket::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

absl::StatusOr<UnixListener> UnixListener::Listen(const std::string& path, UnixSocketKind kind) {
  TROUPE_ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  UniqueFd fd(::socket(AF_UNIX, TypeOf(kind) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a socket");
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  int bound = ::bind(fd.get(), generic, sizeof(address));
  if (bound != 0 && errno == EADDRINUSE) {
    if (IsServed(path, kind)) return absl::AlreadyExistsError("another process listens on " + path);
    ::unlink(path.c_str());
    bound = ::bind(fd.get(), generic, sizeof(address));
  }
  if (bound != 0) return ErrnoStatus(errno, "cannot bind " + path);
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(fd.get(), 128) != 0) {
    return ErrnoStatus(errno, "cannot listen on " + path);
  }
  return UnixListener(std::move(fd), path);
}

bool UnixListener::IsServed(const std::string& path, UnixSocketKind kind) {
  absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return false;
  UniqueFd probe(::socket(AF_UNIX, TypeOf(kind) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int result = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address));
  return result == 0 || errno == EAGAIN || errno == EPROTOTYPE;
}

UnixListener::~UnixListener() {
  if (fd_.valid()) ::unlink(path_.c_str());
}

absl::StatusOr<UnixSocket> UnixListener::Accept(Monotonic deadline) {
  while (true) {
    TROUPE_ASSIGN_OR_RETURN(short ready, WaitForDescriptor(fd_.get(), POLLIN, deadline));
    if ((ready & POLLHUP) != 0) return absl::CancelledError("the listener on " + path_ + " was shut down");
    UniqueFd connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) return UnixSocket(std::move(connection));
    if (errno != EINTR && errno != ECONNABORTED && !WouldBlock(errno)) {
      return ErrnoStatus(errno, "cannot accept on " + path_);
    }
  }
}

void UnixListener::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace troupe
