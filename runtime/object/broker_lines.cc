// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/broker_lines.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/env/clock.h"

namespace troupe {
namespace {

constexpr size_t kPacketBytesMax = 4096;
// Of one line in one pass, so that none keeps the others waiting.
constexpr int kPacketsPerPass = 512;
// Waiting for a process that does not read them; then its session ends, and it opens another.
constexpr size_t kNoticesMax = 16'384;
// After a failed accept (no descriptors left): until then those that are open are served on.
constexpr absl::Duration kAcceptRetry = absl::Milliseconds(20);

}  // namespace

void BrokerLines::Accept(UnixListener& listener) {
  absl::StatusOr<UnixSocket> socket = listener.Accept(Monotonic());
  if (!socket.ok()) {
    if (absl::IsResourceExhausted(socket.status())) PauseFor(kAcceptRetry);
    return;
  }
  absl::StatusOr<PeerCredentials> peer = socket->Credentials();
  bool welcome = peer.ok() && peer->uid == ::geteuid() && lines_.size() < lines_max_;
  if (welcome) lines_.push_back(std::make_unique<Line>(*std::move(socket)));
}

void BrokerLines::AppendFds(std::vector<int>& fds) const {
  for (const auto& line : lines_) fds.push_back(line->socket.fd());
}

bool BrokerLines::Read(Line& line, Sink sink) {
  for (int i = 0; i < kPacketsPerPass; ++i) {
    if (!line.socket.valid()) return true;
    absl::StatusOr<UnixPacket> packet = line.socket.Receive(kPacketBytesMax, Monotonic());
    if (absl::IsDeadlineExceeded(packet.status())) return true;
    Request request{&line, {}, {}};
    if (!packet.ok() || !request.body.ParseFromString(packet->bytes)) {
      request.body.Clear();
      sink(std::move(request));
      return true;
    }
    request.fds = std::move(packet->fds);
    sink(std::move(request));
  }
  return false;
}

void BrokerLines::ReadProcess(ObjectProcess process, Sink sink) {
  for (const auto& line : lines_) {
    if (line->process == process && !line->notices) (void)Read(*line, sink);
  }
}

void BrokerLines::Reply(Line& line, const v1::ObjectReply& reply, const UniqueFd& fd) {
  std::vector<int> fds;
  if (fd.valid()) fds.push_back(fd.get());
  if (!line.socket.Send(reply.SerializeAsString(), fds, Monotonic()).ok()) Close(line);
}

void BrokerLines::Name(Line& line, ObjectProcess process, bool notices) {
  for (const auto& other : lines_) {
    // It is the process that says when this one has ended.
    if (other->process == process && other->notices == notices) other->process = 0;
  }
  line.process = process;
  line.notices = notices;
}

void BrokerLines::Close(Line& line) {
  line.socket = UnixSocket();
  if (line.process == 0) return;
  bool last = std::none_of(lines_.begin(), lines_.end(),
                           [&](const auto& other) { return other->process == line.process && other->socket.valid(); });
  if (last) ended_(line.process);
}

void BrokerLines::RemoveClosed() {
  std::erase_if(lines_, [](const auto& line) { return !line->socket.valid(); });
}

void BrokerLines::Notify(ObjectProcess process, const v1::ObjectNotice& notice) {
  for (const auto& line : lines_) {
    if (line->process == process) Push(*line, notice);
  }
}

void BrokerLines::NotifyAllBut(ObjectProcess process, const v1::ObjectNotice& notice) {
  for (const auto& line : lines_) {
    if (line->process != process) Push(*line, notice);
  }
}

void BrokerLines::Push(Line& line, const v1::ObjectNotice& notice) {
  if (line.process != 0 && line.notices && line.socket.valid()) line.waiting.push_back(notice.SerializeAsString());
}

void BrokerLines::Flush() {
  for (const auto& line : lines_) {
    while (!line->waiting.empty() && line->socket.valid()) {
      absl::Status sent = line->socket.Send(line->waiting.front(), {}, Monotonic());
      if (absl::IsDeadlineExceeded(sent) && line->waiting.size() <= kNoticesMax) break;
      if (!sent.ok()) {
        Close(*line);
      } else {
        line->waiting.pop_front();
      }
    }
  }
}

bool BrokerLines::HasUnsent() const {
  return std::any_of(lines_.begin(), lines_.end(), [](const auto& line) { return !line->waiting.empty(); });
}

std::set<ObjectProcess> BrokerLines::Processes() const {
  std::set<ObjectProcess> processes;
  for (const auto& line : lines_) {
    if (line->process != 0) processes.insert(line->process);
  }
  return processes;
}

}  // namespace troupe
