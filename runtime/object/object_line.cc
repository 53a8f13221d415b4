// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_line.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/rpc/status.h"

namespace troupe {

bool ObjectLine::silent() const { return MonotonicNow() < silent_until_; }

absl::StatusOr<ObjectAnswer> ObjectLine::Ask(const v1::ObjectRequest& request, const std::vector<int>& fds) {
  if (silent()) return absl::UnavailableError("the broker of objects did not answer just now");
  if (socket_.valid()) {
    absl::StatusOr<ObjectAnswer> answer = Exchange(request, fds);
    if (socket_.valid() || silent()) return answer;
  }
  TROUPE_RETURN_IF_ERROR(Dial());
  return Exchange(request, fds);
}

absl::Status ObjectLine::Dial() {
  absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(socket_path_, UnixSocketKind::kSeqPacket);
  if (!socket.ok()) return absl::UnavailableError("no broker of objects: " + MessageOf(socket.status()));
  socket_ = *std::move(socket);
  absl::Status status = dialed_(*this);
  if (!status.ok()) Close();
  return status;
}

absl::StatusOr<ObjectAnswer> ObjectLine::Exchange(const v1::ObjectRequest& request, const std::vector<int>& fds) {
  Monotonic deadline = MonotonicNow() + (silent_until_ == Monotonic() ? timeouts_.reply : timeouts_.again);
  absl::Status sent = socket_.Send(request.SerializeAsString(), fds, deadline);
  absl::StatusOr<UnixPacket> packet =
      sent.ok() ? socket_.Receive(kPacketBytesMax, deadline) : absl::StatusOr<UnixPacket>(sent);
  // After a missing reply the line would be out of step.
  if (!packet.ok()) Close();
  bool silence = absl::IsDeadlineExceeded(packet.status());
  silent_until_ = silence ? MonotonicNow() + timeouts_.silence : Monotonic();
  if (silence) return absl::UnavailableError("the broker of objects does not answer");
  if (!packet.ok()) return packet.status();
  ObjectAnswer answer;
  if (!answer.reply.ParseFromString(packet->bytes)) {
    Close();
    return absl::DataLossError("the broker of objects sent a broken reply");
  }
  TROUPE_RETURN_IF_ERROR(FromErrorStatus(answer.reply.error()));
  answer.fds = std::move(packet->fds);
  return answer;
}

absl::Status ObjectLine::Tell(const v1::ObjectRequest& request) {
  if (!socket_.valid()) return absl::UnavailableError("no broker of objects");
  absl::Status sent = socket_.Send(request.SerializeAsString(), {}, MonotonicNow() + timeouts_.reply);
  if (!sent.ok()) Close();
  return sent;
}

}  // namespace troupe
