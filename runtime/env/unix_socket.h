// SPDX-License-Identifier: Apache-2.0
// Unix sockets that carry descriptors (SCM_RIGHTS): UnixSocket is one connection, UnixListener takes connections.
//
// Packet sockets (kSeqPacket) keep message borders; an empty packet is not used (it looks like the end). One thread may
// send while another receives. A deadline in the past (Monotonic()) means: try once, without waiting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/unique_fd.h"

namespace troupe {

enum class UnixSocketKind { kStream, kSeqPacket };

// Descriptors in one packet; the kernel allows 253.
inline constexpr int kDescriptorsInPacketMax = 64;

struct UnixPacket {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

class UnixSocket {
 public:
  // Owns nothing; for containers.
  UnixSocket() = default;
  explicit UnixSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // NOT_FOUND: no such socket file. UNAVAILABLE: nobody listens on it.
  static absl::StatusOr<UnixSocket> Connect(const std::string& path, UnixSocketKind kind);
  static absl::StatusOr<std::pair<UnixSocket, UnixSocket>> Pair(UnixSocketKind kind);

  // All of `bytes` with the descriptors beside the first byte; the descriptors stay the caller's.
  // UNAVAILABLE: the peer has gone. DEADLINE_EXCEEDED: its queue stayed full; on a stream a part may have been sent.
  absl::Status Send(std::string_view bytes, const std::vector<int>& fds, Monotonic deadline);

  // One packet, or what is there of a stream, at most `bytes_max`. RESOURCE_EXHAUSTED: the packet was longer and is
  // lost. UNAVAILABLE: the peer closed. DEADLINE_EXCEEDED: nothing came. Received descriptors are close-on-exec.
  absl::StatusOr<UnixPacket> Receive(size_t bytes_max, Monotonic deadline);

  // Of the process that connected (or listened), as the kernel saw it then.
  absl::StatusOr<PeerCredentials> Credentials() const;

  // Wakes every waiter on both sides; what is queued can still be received by the peer.
  void Shutdown();
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  UniqueFd fd_;
};

class UnixListener {
 public:
  // Binds with mode 0600. A socket file that nobody listens on any more is replaced; ALREADY_EXISTS when somebody does;
  // INVALID_ARGUMENT when the path is longer than the kernel's 107 bytes.
  static absl::StatusOr<UnixListener> Listen(const std::string& path, UnixSocketKind kind);
  UnixListener(UnixListener&& other) noexcept = default;
  UnixListener& operator=(UnixListener&& other) = delete;
  // Removes the socket file.
  ~UnixListener();

  // Whether somebody listens on that socket file now.
  static bool IsServed(const std::string& path, UnixSocketKind kind);

  // DEADLINE_EXCEEDED: nobody came. CANCELLED: Shutdown was called. RESOURCE_EXHAUSTED: out of descriptors.
  absl::StatusOr<UnixSocket> Accept(Monotonic deadline);

  // Wakes a waiting Accept. Safe from any thread.
  void Shutdown();
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  UnixListener(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

// Waits until one of `events` (POLLIN, ...) holds on `fd` or it hung up, and returns what holds. DEADLINE_EXCEEDED when
// none came.
absl::StatusOr<short> WaitForDescriptor(int fd, short events, Monotonic deadline);

// The positions in `fds` that can be read, or hung up. Empty when the deadline has passed.
absl::StatusOr<std::vector<size_t>> WaitForAny(const std::vector<int>& fds, Monotonic deadline);

}  // namespace troupe
