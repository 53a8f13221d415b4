// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_client.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr size_t kPacketBytesMax = 4096;
// The broker never does long work; an agent that is stopped or starved may take that long.
constexpr absl::Duration kReplyTimeout = absl::Seconds(10);

absl::StatusOr<v1::ObjectReply> ParseReply(const UnixPacket& packet) {
  v1::ObjectReply reply;
  if (!reply.ParseFromString(packet.bytes)) return absl::DataLossError("the broker of objects sent a broken reply");
  TROUPE_RETURN_IF_ERROR(FromErrorStatus(reply.error()));
  return reply;
}

}  // namespace

ObjectClient::ObjectClient(std::string socket_path, ActorLife owner)
    : socket_path_(std::move(socket_path)), owner_(std::move(owner)) {}

v1::ObjectRequest ObjectClient::PutRequest(const std::string& id, bool keep) const {
  v1::ObjectRequest request;
  request.mutable_put()->set_object_id(id);
  *request.mutable_put()->mutable_owner() = owner_.ToProto();
  request.mutable_put()->set_keep(keep);
  return request;
}

absl::Status ObjectClient::Put(const std::string& id, std::shared_ptr<const MemoryFile> file, bool keep) {
  MutexLock lock(mutex_);
  TROUPE_ASSIGN_OR_RETURN(UnixPacket packet, Ask(PutRequest(id, keep), {file->fd()}));
  TROUPE_RETURN_IF_ERROR(ParseReply(packet).status());
  held_[id] = {std::move(file), keep};
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MemoryFile>> ObjectClient::Get(const std::string& id) {
  v1::ObjectRequest request;
  request.mutable_get()->set_object_id(id);
  UnixPacket packet;
  {
    MutexLock lock(mutex_);
    TROUPE_ASSIGN_OR_RETURN(packet, Ask(request, {}));
  }
  TROUPE_ASSIGN_OR_RETURN(v1::ObjectReply reply, ParseReply(packet));
  if (packet.fds.size() != 1) return absl::DataLossError("the broker sent object " + id + " without its descriptor");
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const MemoryFile> file, MemoryFile::Map(std::move(packet.fds[0])));
  if (file->size() != reply.size_bytes()) return absl::DataLossError("object " + id + " has another size than it says");
  return file;
}

absl::Status ObjectClient::Drop(const std::string& id) {
  v1::ObjectRequest request;
  request.mutable_drop()->set_object_id(id);
  MutexLock lock(mutex_);
  held_.erase(id);
  TROUPE_ASSIGN_OR_RETURN(UnixPacket packet, Ask(request, {}));
  return ParseReply(packet).status();
}

absl::StatusOr<UnixPacket> ObjectClient::Ask(const v1::ObjectRequest& request, const std::vector<int>& fds) {
  if (socket_.valid()) {
    absl::StatusOr<UnixPacket> packet = Exchange(request, fds);
    if (!absl::IsUnavailable(packet.status())) return packet;
  }
  // Put, get and drop may all be repeated.
  TROUPE_RETURN_IF_ERROR(Dial());
  return Exchange(request, fds);
}

absl::Status ObjectClient::Dial() {
  absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(socket_path_, UnixSocketKind::kSeqPacket);
  if (!socket.ok()) return absl::UnavailableError("no broker of objects: " + MessageOf(socket.status()));
  socket_ = *std::move(socket);
  for (const auto& [id, held] : held_) {
    TROUPE_RETURN_IF_ERROR(Exchange(PutRequest(id, held.keep), {held.file->fd()}).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixPacket> ObjectClient::Exchange(const v1::ObjectRequest& request, const std::vector<int>& fds) {
  Monotonic deadline = MonotonicNow() + kReplyTimeout;
  absl::Status sent = socket_.Send(request.SerializeAsString(), fds, deadline);
  absl::StatusOr<UnixPacket> packet =
      sent.ok() ? socket_.Receive(kPacketBytesMax, deadline) : absl::StatusOr<UnixPacket>(sent);
  // After a missing reply the line would be out of step.
  if (!packet.ok()) socket_ = UnixSocket();
  if (absl::IsDeadlineExceeded(packet.status())) return absl::UnavailableError("the broker of objects does not answer");
  return packet;
}

}  // namespace troupe
