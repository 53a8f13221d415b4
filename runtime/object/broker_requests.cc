// SPDX-License-Identifier: Apache-2.0
// What the broker does about each request of a process.
#include <fcntl.h>

#include <utility>

#include "runtime/base/status.h"
#include "runtime/object/memory_file.h"
#include "runtime/object/object_broker.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

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

void ObjectBroker::Take(Request request) {
  if (request.body.has_export_object()) return Export(request.from->process, request.body.export_object());
  requests_.push_back(std::move(request));
}

void ObjectBroker::Handle(Request& request) {
  Line& from = *request.from;
  if (!from.socket.valid()) return;
  if (request.body.request_case() == v1::ObjectRequest::REQUEST_NOT_SET) return lines_.Close(from);
  UniqueFd send;
  v1::ObjectReply reply = Answer(request, send);
  if (!IsOneWay(request.body)) lines_.Reply(from, reply, send);
}

v1::ObjectReply ObjectBroker::Answer(Request& request, UniqueFd& send) {
  v1::ObjectReply reply;
  absl::Status status = absl::OkStatus();
  const v1::ObjectRequest& body = request.body;
  if (body.has_put()) {
    status = Put(request);
  } else if (body.has_get()) {
    status = Get(body.get(), reply, send);
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

absl::Status ObjectBroker::Get(const v1::GetObject& get, v1::ObjectReply& reply, UniqueFd& send) {
  MutexLock lock(mutex_);
  TROUPE_ASSIGN_OR_RETURN(const ObjectTable::Entry* entry, table_.Get(get.object_id()));
  reply.set_size_bytes(entry->bytes);
  return CopyOf(entry->fd, send);
}

absl::Status ObjectBroker::Open(Line& from, const v1::OpenSession& open, v1::ObjectReply& reply) {
  if (open.process() == 0 || from.process != 0)
    return absl::InvalidArgumentError("a session is opened once, by number");
  lines_.Name(from, open.process(), open.notices());
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

absl::Status ObjectBroker::Hold(Line& from, const v1::HoldObject& hold, v1::ObjectReply& reply) {
  ObjectId id = ObjectId::FromProto(hold.name());
  bool known;
  {
    MutexLock lock(mutex_);
    known = holds_.Knows(id);
  }
  // It was exported before anybody could ask for it, perhaps on a line that was not read yet.
  if (!known && !hold.has_home()) {
    lines_.ReadProcess(id.process, [this](Request request) { Take(std::move(request)); });
  }
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
    if (hold.answer()) lines_.Notify(here.process, notice);
    reply.set_pending(true);
  }
  *reply.mutable_place() = place.ToProto();
  return absl::OkStatus();
}

void ObjectBroker::Claim(const v1::ClaimTransit& claim) {
  v1::ObjectNotice notice;
  notice.set_claimed_transit(claim.transit());
  lines_.Notify(claim.process(), notice);
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
  lines_.NotifyAllBut(0, notice);  // Its owner too: a ref may have come back to it.
}

void ObjectBroker::Withdraw(ObjectProcess from, const v1::WithdrawObject& withdraw) {
  ObjectId id = ObjectId::FromProto(withdraw.name());
  v1::ObjectNotice notice;
  MutexLock lock(mutex_);
  absl::StatusOr<std::vector<ObjectProcess>> ask = holds_.Withdraw(from, id);
  if (!ask.ok()) {
    notice.mutable_withdrawn()->set_sequence(id.sequence);
    return lines_.Notify(from, notice);
  }
  *notice.mutable_revoke() = holds_.Outside(id).ToProto();
  for (ObjectProcess process : *ask) lines_.Notify(process, notice);
}

v1::NodeObjectFigures ObjectBroker::Figures() const {
  v1::NodeObjectFigures figures = exchange_figures_;
  MutexLock lock(mutex_);
  figures.set_bytes(budget_.bytes);
  figures.set_bytes_max(budget_.bytes_max);
  figures.set_objects(static_cast<int64_t>(holds_.objects()));
  return figures;
}

}  // namespace troupe
