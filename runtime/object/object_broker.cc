// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_broker.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/object/memory_file.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr size_t kPacketBytesMax = 4096;
// After a failed accept (no descriptors left): until then those that are open are served on.
constexpr absl::Duration kAcceptRetry = absl::Milliseconds(20);

int64_t HalfOfMemory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectBroker>> ObjectBroker::Start(ObjectBrokerOptions options) {
  if (options.bytes_max == 0) options.bytes_max = HalfOfMemory();
  TROUPE_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(options.socket_path, UnixSocketKind::kSeqPacket));
  TROUPE_ASSIGN_OR_RETURN(auto wake, UnixSocket::Pair(UnixSocketKind::kStream));
  return std::unique_ptr<ObjectBroker>(
      new ObjectBroker(std::move(options), std::move(listener), std::move(wake.first), std::move(wake.second)));
}

ObjectBroker::ObjectBroker(ObjectBrokerOptions options, UnixListener listener, UnixSocket wake,
                           UnixSocket wake_other_end)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      wake_other_end_(std::move(wake_other_end)),
      table_(options_.bytes_max),
      thread_([this] { Run(); }) {}

ObjectBroker::~ObjectBroker() {
  wake_other_end_.Shutdown();
  thread_.join();
}

void ObjectBroker::Run() {
  while (true) {
    std::vector<int> fds = {wake_.fd(), listener_.fd()};
    for (const UnixSocket& connection : connections_) fds.push_back(connection.fd());
    absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, Monotonic::Infinite());
    if (!ready.ok()) return;
    bool accept = false;
    for (size_t i : *ready) {
      if (i == 0) return;
      if (i == 1) {
        accept = true;
      } else if (!Serve(connections_[i - 2])) {
        connections_[i - 2] = UnixSocket();
      }
    }
    std::erase_if(connections_, [](const UnixSocket& connection) { return !connection.valid(); });
    if (accept) Accept();
  }
}

void ObjectBroker::Accept() {
  absl::StatusOr<UnixSocket> connection = listener_.Accept(Monotonic());
  if (!connection.ok()) {
    if (absl::IsResourceExhausted(connection.status())) PauseFor(kAcceptRetry);
    return;
  }
  absl::StatusOr<PeerCredentials> peer = connection->Credentials();
  bool welcome =
      peer.ok() && peer->uid == ::geteuid() && connections_.size() < static_cast<size_t>(options_.connections_max);
  if (welcome) connections_.push_back(*std::move(connection));
}

bool ObjectBroker::Serve(UnixSocket& connection) {
  absl::StatusOr<UnixPacket> packet = connection.Receive(kPacketBytesMax, Monotonic());
  if (!packet.ok()) return absl::IsDeadlineExceeded(packet.status());
  v1::ObjectRequest request;
  if (!request.ParseFromString(packet->bytes)) return false;
  UniqueFd send;
  v1::ObjectReply reply = Answer(request, std::move(packet->fds), send);
  std::vector<int> fds;
  if (send.valid()) fds.push_back(send.get());
  // A peer that asks and does not read is not waited for.
  return connection.Send(reply.SerializeAsString(), fds, Monotonic()).ok();
}

v1::ObjectReply ObjectBroker::Answer(const v1::ObjectRequest& request, std::vector<UniqueFd> fds, UniqueFd& send) {
  v1::ObjectReply reply;
  absl::Status status = absl::InvalidArgumentError("a request of a kind that this broker does not know");
  if (request.has_put()) {
    absl::StatusOr<int64_t> size =
        fds.size() == 1 ? SealedSize(fds[0].get()) : absl::InvalidArgumentError("a put comes with one descriptor");
    status = size.status();
    if (size.ok()) {
      MutexLock lock(mutex_);
      status =
          table_.Put(request.put().object_id(),
                     {std::move(fds[0]), *size, ActorLife::FromProto(request.put().owner()), request.put().keep()});
    }
  } else if (request.has_get()) {
    MutexLock lock(mutex_);
    absl::StatusOr<const ObjectTable::Entry*> entry = table_.Get(request.get().object_id());
    status = entry.status();
    if (entry.ok()) {
      // A descriptor of our own: the object may be dropped while the reply is written.
      send.Reset(::fcntl((*entry)->fd.get(), F_DUPFD_CLOEXEC, 0));
      reply.set_size_bytes((*entry)->bytes);
      if (!send.valid()) status = absl::ResourceExhaustedError("the broker is out of descriptors");
    }
  } else if (request.has_drop()) {
    MutexLock lock(mutex_);
    table_.Drop(request.drop().object_id());
    status = absl::OkStatus();
  }
  *reply.mutable_error() = ToErrorStatus(status);
  return reply;
}

void ObjectBroker::OwnerEnded(const ActorLife& life) {
  MutexLock lock(mutex_);
  table_.OwnerEnded(life);
}

int64_t ObjectBroker::bytes() const {
  MutexLock lock(mutex_);
  return table_.bytes();
}

size_t ObjectBroker::objects() const {
  MutexLock lock(mutex_);
  return table_.size();
}

}  // namespace troupe
