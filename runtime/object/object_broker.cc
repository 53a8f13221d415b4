// SPDX-License-Identifier: Apache-2.0
#include "runtime/object/object_broker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/memory.h"
#include "runtime/object/memory_file.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

constexpr size_t kPacketBytesMax = 4096;
// Of one connection in one pass, so that none keeps the others waiting.
constexpr int kPacketsPerPass = 512;
// Waiting for a process that does not read them; then its session ends, and it opens another.
constexpr size_t kNoticesMax = 16'384;
constexpr absl::Duration kNoticeRetry = absl::Milliseconds(5);
constexpr absl::Duration kPollRetry = absl::Milliseconds(100);
// Sequence numbers in one notice: within kPacketBytesMax.
constexpr size_t kFreedPerNotice = 400;
// After a failed accept (no descriptors left): until then those that are open are served on.
constexpr absl::Duration kAcceptRetry = absl::Milliseconds(20);

// Those that no reply follows.
bool IsOneWay(const v1::ObjectRequest& request) {
  return request.has_export_object() || request.has_release() || request.has_claim() || request.has_withdraw() ||
         request.has_agree() || request.has_remove_file() || request.has_elsewhere() || request.has_tell_figures() ||
         (request.has_hold() && !request.hold().answer());
}

absl::Status CopyOf(const UniqueFd& fd, UniqueFd& copy) {
  // A descriptor of our own: the object may be dropped while the reply is written.
  copy.Reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return copy.valid() ? absl::OkStatus() : absl::ResourceExhaustedError("the broker is out of descriptors");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectBroker>> ObjectBroker::Start(ObjectBrokerOptions options) {
  if (options.bytes_max == 0) options.bytes_max = UsableMemoryBytes() / 2;
  TROUPE_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(options.socket_path, UnixSocketKind::kSeqPacket));
  TROUPE_ASSIGN_OR_RETURN(auto wake, UnixSocket::Pair(UnixSocketKind::kStream));
  return std::unique_ptr<ObjectBroker>(
      new ObjectBroker(std::move(options), std::move(listener), std::move(wake.first), std::move(wake.second)));
}

ObjectBroker::ObjectBroker(ObjectBrokerOptions options, UnixListener listener, UnixSocket wake,
                           UnixSocket wake_other_end)
    : options_(std::move(options)),
      resync_until_(MonotonicNow() + options_.resync_grace),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      wake_other_end_(std::move(wake_other_end)),
      budget_{options_.bytes_max},
      table_(budget_),
      holds_(budget_),
      thread_([this] { Run(); }) {}

ObjectBroker::~ObjectBroker() {
  wake_other_end_.Shutdown();
  thread_.join();
  if (!options_.spill_folder.empty()) (void)RemoveTree(options_.spill_folder);
}

bool ObjectBroker::Resyncing() const { return MonotonicNow() < resync_until_; }

void ObjectBroker::Run() {
  while (true) {
    Monotonic deadline = Monotonic::Infinite();
    if (Resyncing()) {
      deadline = resync_until_;
    } else if (!unheld_.empty() || !agreed_.empty()) {
      deadline = Monotonic();
    }
    for (const auto& connection : connections_) {
      if (!connection->waiting.empty()) deadline = std::min(deadline, MonotonicNow() + kNoticeRetry);
    }
    if (!Pass(deadline)) return;
  }
}

bool ObjectBroker::Pass(Monotonic deadline) {
  std::vector<ObjectId> candidates;
  std::vector<std::pair<ObjectId, uint64_t>> agreed;
  if (!Resyncing()) {
    candidates.swap(unheld_);
    agreed.swap(agreed_);
    if (!spills_cleaned_) RemoveDeadSpills();
  }
  std::vector<int> fds = {wake_.fd(), listener_.fd()};
  for (const auto& connection : connections_) fds.push_back(connection->socket.fd());
  absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, deadline);
  if (!ready.ok()) {  // The system is short of something.
    PauseFor(kPollRetry);
    return true;
  }
  bool accept = false, whole = true;
  for (size_t i : *ready) {
    if (i == 0) return false;
    if (i == 1) {
      accept = true;
    } else {
      whole = Drain(*connections_[i - 2]) && whole;
    }
  }
  for (; !requests_.empty(); requests_.pop_front()) Handle(requests_.front());
  Sweep(std::move(candidates), std::move(agreed), whole);
  for (const auto& connection : connections_) FlushNotices(*connection);
  std::erase_if(connections_, [](const auto& connection) { return !connection->socket.valid(); });
  if (accept) Accept();
  return true;
}

void ObjectBroker::Sweep(std::vector<ObjectId> candidates, std::vector<std::pair<ObjectId, uint64_t>> agreed,
                         bool whole) {
  MutexLock lock(mutex_);
  if (!Resyncing()) holds_.ForgetPromises();
  for (const ObjectId& id : holds_.TakeUnheld()) unheld_.push_back(id);
  for (const auto& agreement : holds_.TakeAgreed()) agreed_.push_back(agreement);
  if (!whole) {
    unheld_.insert(unheld_.end(), candidates.begin(), candidates.end());
    agreed_.insert(agreed_.end(), agreed.begin(), agreed.end());
    candidates.clear();
    agreed.clear();
  }
  holds_.FinishWithdrawals(agreed);
  v1::ObjectNotice notice;
  for (const auto& [process, sequences] : holds_.Sweep(candidates)) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      notice.mutable_freed()->add_sequences(sequences[i]);
      if ((i + 1) % kFreedPerNotice != 0 && i + 1 < sequences.size()) continue;
      Notify(process, notice);
      notice.Clear();
    }
  }
  for (const auto& [owner, file] : holds_.TakeDropped()) {
    notice.mutable_file_removed()->set_process(owner);
    notice.mutable_file_removed()->set_file(file);
    NotifyOthers(owner, notice);
  }
  for (const ObjectId& id : holds_.TakeForgotten()) {
    if (elsewhere_.erase(id) > 0) TellExchange(id, v1::ElsewhereNotice::RELEASE);
  }
  for (const auto& [id, away] : holds_.TakeWithdrawn()) {
    notice.mutable_withdrawn()->set_sequence(id.sequence);
    notice.mutable_withdrawn()->set_away(away);
    Notify(id.process, notice);
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
  if (welcome) connections_.push_back(std::make_unique<Connection>(*std::move(connection)));
}

bool ObjectBroker::Drain(Connection& connection) {
  for (int i = 0; i < kPacketsPerPass; ++i) {
    if (!connection.socket.valid()) return true;
    absl::StatusOr<UnixPacket> packet = connection.socket.Receive(kPacketBytesMax, Monotonic());
    if (absl::IsDeadlineExceeded(packet.status())) return true;
    Request request{&connection, {}, {}};
    if (!packet.ok() || !request.body.ParseFromString(packet->bytes)) {
      // What it sent before is handled first; its end comes in its turn.
      request.body.Clear();
      requests_.push_back(std::move(request));
      return true;
    }
    if (request.body.has_export_object()) {
      Export(connection.process, request.body.export_object());
      continue;
    }
    request.fds = std::move(packet->fds);
    requests_.push_back(std::move(request));
  }
  return false;
}

void ObjectBroker::DrainSession(ObjectProcess process) {
  for (const auto& connection : connections_) {
    if (connection->process == process && !connection->notices) (void)Drain(*connection);
  }
}

void ObjectBroker::Close(Connection& connection) {
  connection.socket = UnixSocket();
  if (connection.process == 0) return;
  // A process has two lines; it has ended when both have.
  for (const auto& other : connections_) {
    if (other->process == connection.process && other->socket.valid()) return;
  }
  {
    MutexLock lock(mutex_);
    holds_.Close(connection.process);
  }
  if (!options_.spill_folder.empty()) (void)RemoveTree(SpillFolderOf(connection.process));
}

void ObjectBroker::Handle(Request& request) {
  Connection& from = *request.from;
  if (!from.socket.valid()) return;
  if (request.body.request_case() == v1::ObjectRequest::REQUEST_NOT_SET) return Close(from);
  UniqueFd send;
  v1::ObjectReply reply = Answer(request, send);
  if (IsOneWay(request.body)) return;
  std::vector<int> fds;
  if (send.valid()) fds.push_back(send.get());
  // A peer that asks and does not read is not waited for.
  if (!from.socket.Send(reply.SerializeAsString(), fds, Monotonic()).ok()) Close(from);
}

v1::ObjectReply ObjectBroker::Answer(Request& request, UniqueFd& send) {
  v1::ObjectReply reply;
  absl::Status status = absl::OkStatus();
  const v1::ObjectRequest& body = request.body;
  if (body.has_put()) {
    status = Put(request);
  } else if (body.has_get()) {
    status = Get(body, reply, send);
  } else if (body.has_drop()) {
    MutexLock lock(mutex_);
    table_.Drop(body.drop().object_id());
  } else if (body.has_open()) {
    status = Open(*request.from, body.open(), reply);
  } else if (body.has_add_file()) {
    status = AddFile(request);
  } else if (body.has_remove_file()) {
    MutexLock lock(mutex_);
    holds_.RemoveFile(request.from->process, body.remove_file().file());
  } else if (body.has_get_file()) {
    status = GetFile(body.get_file(), reply, send);
  } else if (body.has_hold()) {
    status = Hold(*request.from, body.hold(), reply);
  } else if (body.has_release()) {
    MutexLock lock(mutex_);
    holds_.Release(request.from->process, ObjectId::FromProto(body.release().name()));
  } else if (body.has_claim()) {
    Claim(body.claim());
  } else if (body.has_withdraw()) {
    Withdraw(request.from->process, body.withdraw());
  } else if (body.has_agree()) {
    MutexLock lock(mutex_);
    holds_.Agree(request.from->process, ObjectId::FromProto(body.agree().name()), body.agree().agrees());
  } else if (body.has_elsewhere()) {
    TakeElsewhere(request.from->process, body.elsewhere());
  } else if (body.has_tell_figures()) {
    if (request.from->process == exchange_) exchange_figures_ = body.tell_figures();
  } else if (body.has_get_figures()) {
    *reply.mutable_figures() = Figures();
  } else {
    status = absl::InvalidArgumentError("a request of a kind that this broker does not know");
  }
  *reply.mutable_error() = ToErrorStatus(status);
  return reply;
}

absl::Status ObjectBroker::Put(Request& request) {
  if (request.fds.size() != 1) return absl::InvalidArgumentError("a put comes with one descriptor");
  TROUPE_ASSIGN_OR_RETURN(int64_t size, SealedSize(request.fds[0].get()));
  const v1::PutObject& put = request.body.put();
  MutexLock lock(mutex_);
  return table_.Put(put.object_id(), {std::move(request.fds[0]), size, ActorLife::FromProto(put.owner()), put.keep()});
}

absl::Status ObjectBroker::Get(const v1::ObjectRequest& request, v1::ObjectReply& reply, UniqueFd& send) {
  MutexLock lock(mutex_);
  TROUPE_ASSIGN_OR_RETURN(const ObjectTable::Entry* entry, table_.Get(request.get().object_id()));
  reply.set_size_bytes(entry->bytes);
  return CopyOf(entry->fd, send);
}

absl::Status ObjectBroker::Open(Connection& from, const v1::OpenSession& open, v1::ObjectReply& reply) {
  if (open.process() == 0 || from.process != 0)
    return absl::InvalidArgumentError("a session is opened once, by number");
  for (const auto& other : connections_) {
    // The same process' line before; it is the process that says when that has ended.
    if (other->process == open.process() && other->notices == open.notices()) other->process = 0;
  }
  from.process = open.process();
  from.notices = open.notices();
  reply.set_node_id(options_.node_id);
  reply.set_endpoint(options_.endpoint);
  if (!options_.spill_folder.empty()) reply.set_spill_folder(SpillFolderOf(open.process()));
  if (open.notices() && open.exchange()) OpenExchange(open.process());
  if (open.notices()) return absl::OkStatus();
  MutexLock lock(mutex_);
  holds_.Open(open.process(), open.name(), ActorLife::FromProto(open.owner()));
  return absl::OkStatus();
}

absl::Status ObjectBroker::AddFile(Request& request) {
  if (request.fds.size() != 1) return absl::InvalidArgumentError("a file comes with one descriptor");
  TROUPE_ASSIGN_OR_RETURN(int64_t size, PooledSize(request.fds[0].get()));
  const v1::AddObjectFile& add = request.body.add_file();
  MutexLock lock(mutex_);
  return holds_.AddFile(request.from->process, add.process(), add.file(), std::move(request.fds[0]), size);
}

absl::Status ObjectBroker::GetFile(const v1::GetObjectFile& get, v1::ObjectReply& reply, UniqueFd& send) {
  MutexLock lock(mutex_);
  TROUPE_ASSIGN_OR_RETURN(const HoldTable::File* file, holds_.FindFile(get.process(), get.file()));
  reply.set_size_bytes(file->bytes);
  return CopyOf(file->fd, send);
}

absl::Status ObjectBroker::Hold(Connection& from, const v1::HoldObject& hold, v1::ObjectReply& reply) {
  ObjectId id = ObjectId::FromProto(hold.name());
  bool known;
  {
    MutexLock lock(mutex_);
    known = holds_.Knows(id);
  }
  // It was exported before anybody could ask for it, perhaps on a line that was not read yet.
  if (!known && !hold.has_home()) DrainSession(id.process);
  MutexLock lock(mutex_);
  if (holds_.IsElsewhere(id) || (hold.has_home() && !holds_.Knows(id))) return HoldElsewhere(from, hold, reply);
  if (!holds_.Knows(id) && Resyncing()) {
    if (!hold.answer()) holds_.Promise(from.process, id);
    return absl::UnavailableError("the node agent was restarted and does not know yet who holds " + id.ToString());
  }
  TROUPE_ASSIGN_OR_RETURN(ObjectPlace place, holds_.Hold(from.process, id));
  if (holds_.IsAway(id) && !hold.stay()) {
    const ObjectId& here = holds_.Here(id);
    v1::ObjectNotice notice;
    notice.set_restore(here.sequence);
    if (hold.answer()) Notify(here.process, notice);
    reply.set_pending(true);
  }
  *reply.mutable_place() = place.ToProto();
  return absl::OkStatus();
}

void ObjectBroker::Claim(const v1::ClaimTransit& claim) {
  v1::ObjectNotice notice;
  notice.set_claimed_transit(claim.transit());
  Notify(claim.process(), notice);
}

void ObjectBroker::Export(ObjectProcess from, const v1::ExportObject& shared) {
  ObjectId id = ObjectId::FromProto(shared.name());
  MutexLock lock(mutex_);
  bool was_away = holds_.IsAway(id);
  // A process that exports what is not so harms itself: nobody can hold it.
  absl::Status status =
      shared.away() ? holds_.ExportAway(from, id) : holds_.Export(from, id, ObjectPlace::FromProto(shared.place()));
  if (!status.ok() || !was_away || shared.away()) return;
  v1::ObjectNotice notice;
  *notice.mutable_arrived()->mutable_name() = shared.name();
  NotifyOthers(0, notice);  // Its owner too: a ref may have come back to it.
}

void ObjectBroker::Withdraw(ObjectProcess from, const v1::WithdrawObject& withdraw) {
  ObjectId id = ObjectId::FromProto(withdraw.name());
  v1::ObjectNotice notice;
  MutexLock lock(mutex_);
  absl::StatusOr<std::vector<ObjectProcess>> ask = holds_.Withdraw(from, id);
  if (!ask.ok()) {
    notice.mutable_withdrawn()->set_sequence(id.sequence);
    return Notify(from, notice);
  }
  *notice.mutable_revoke() = holds_.Outside(id).ToProto();
  for (ObjectProcess process : *ask) Notify(process, notice);
}

std::string ObjectBroker::SpillFolderOf(ObjectProcess process) const {
  return options_.spill_folder + "/" + absl::StrFormat("%016x", process);
}

void ObjectBroker::RemoveDeadSpills() {
  spills_cleaned_ = true;
  if (options_.spill_folder.empty()) return;
  std::vector<std::string> names = ListDirectory(options_.spill_folder).value_or(std::vector<std::string>());
  for (const std::string& name : names) {
    std::string folder = options_.spill_folder + "/" + name;
    bool lives = std::any_of(connections_.begin(), connections_.end(), [&](const auto& connection) {
      return connection->process != 0 && SpillFolderOf(connection->process) == folder;
    });
    if (!lives) (void)RemoveTree(folder);
  }
}

void ObjectBroker::NotifyOthers(ObjectProcess process, const v1::ObjectNotice& notice) {
  for (const auto& connection : connections_) {
    if (connection->notices && connection->process != process) Notify(connection->process, notice);
  }
}

void ObjectBroker::Notify(ObjectProcess process, const v1::ObjectNotice& notice) {
  for (const auto& connection : connections_) {
    if (connection->process != process || !connection->notices || !connection->socket.valid()) continue;
    connection->waiting.push_back(notice.SerializeAsString());
  }
}

void ObjectBroker::FlushNotices(Connection& connection) {
  while (!connection.waiting.empty() && connection.socket.valid()) {
    absl::Status sent = connection.socket.Send(connection.waiting.front(), {}, Monotonic());
    if (absl::IsDeadlineExceeded(sent) && connection.waiting.size() <= kNoticesMax) return;
    if (!sent.ok()) return Close(connection);
    connection.waiting.pop_front();
  }
}

v1::NodeObjectFigures ObjectBroker::Figures() const {
  v1::NodeObjectFigures figures = exchange_figures_;
  MutexLock lock(mutex_);
  figures.set_bytes(budget_.bytes);
  figures.set_bytes_max(budget_.bytes_max);
  figures.set_objects(static_cast<int64_t>(holds_.objects()));
  return figures;
}

void ObjectBroker::OwnerEnded(const ActorLife& life, const std::string& cause) {
  MutexLock lock(mutex_);
  table_.OwnerEnded(life);
  holds_.OwnerEnded(life, cause);
}

int64_t ObjectBroker::bytes() const {
  MutexLock lock(mutex_);
  return budget_.bytes;
}

size_t ObjectBroker::objects() const {
  MutexLock lock(mutex_);
  return table_.size();
}

size_t ObjectBroker::held_objects() const {
  MutexLock lock(mutex_);
  return holds_.objects();
}

}  // namespace troupe
