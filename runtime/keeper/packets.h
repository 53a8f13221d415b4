// SPDX-License-Identifier: Apache-2.0
// Packets between a node agent and its keeper: one protobuf message each (proto/troupe/v1/keeper.proto), with
// descriptors beside it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "runtime/base/monotonic.h"
#include "runtime/env/unix_socket.h"

namespace troupe::keeper {

// The kernel's default for a socket's send buffer holds one packet of this size.
inline constexpr size_t kPacketBytesMax = 192 * 1024;

// The keeper's socket in the agent's runtime folder, and the lock that its keeper holds.
inline std::string KeeperSocketPath(const std::string& runtime_dir) { return runtime_dir + "/keeper.sock"; }
inline std::string KeeperLockPath(const std::string& runtime_dir) { return runtime_dir + "/keeper.lock"; }
// The exit status of a keeper that found another one alive in its folder.
inline constexpr int kFolderTakenExit = 3;

// INVALID_ARGUMENT: the message is too large for a packet. Others as UnixSocket::Send.
absl::Status SendPacket(UnixSocket& socket, const google::protobuf::MessageLite& message, const std::vector<int>& fds,
                        Monotonic deadline);

// Fills `message` and returns the descriptors. DATA_LOSS: the packet is no such message. Others as UnixSocket::Receive.
absl::StatusOr<std::vector<UniqueFd>> ReceivePacket(UnixSocket& socket, google::protobuf::MessageLite& message,
                                                    Monotonic deadline);

}  // namespace troupe::keeper
