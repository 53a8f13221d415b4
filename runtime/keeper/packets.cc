// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/packets.h"

namespace troupe::keeper {

absl::Status SendPacket(UnixSocket& socket, const google::protobuf::MessageLite& message, const std::vector<int>& fds,
                        Monotonic deadline) {
  std::string bytes = message.SerializeAsString();
  if (bytes.size() > kPacketBytesMax) {
    return absl::InvalidArgumentError("a packet of " + std::to_string(bytes.size()) + " bytes is over the limit of " +
                                      std::to_string(kPacketBytesMax));
  }
  return socket.Send(bytes, fds, deadline);
}

absl::StatusOr<std::vector<UniqueFd>> ReceivePacket(UnixSocket& socket, google::protobuf::MessageLite& message,
                                                    Monotonic deadline) {
  absl::StatusOr<UnixPacket> packet = socket.Receive(kPacketBytesMax, deadline);
  if (!packet.ok()) return packet.status();
  if (!message.ParseFromString(packet->bytes)) return absl::DataLossError("a packet that is no such message");
  return std::move(packet->fds);
}

}  // namespace troupe::keeper
