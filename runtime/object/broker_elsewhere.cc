// SPDX-License-Identifier: Apache-2.0
// What the broker does about objects of other nodes: it counts who holds them here, and tells the node's exchange what
// to hold and fetch there.
#include <utility>

#include "runtime/base/status.h"
#include "runtime/object/object_broker.h"

namespace troupe {

absl::Status ObjectBroker::HoldElsewhere(Line& from, const v1::HoldObject& hold, v1::ObjectReply& reply) {
  ObjectId id = ObjectId::FromProto(hold.name());
  if (options_.endpoint.empty()) {
    return absl::FailedPreconditionError(
        id.ToString() + " lies on node " + hold.home().node_id() +
        ", and this node fetches nothing from others: its agent reaches the head through a Unix socket only; join it "
        "with --head HOST:PORT");
  }
  TROUPE_ASSIGN_OR_RETURN(bool is_new, holds_.HoldElsewhere(from.process, id));
  Elsewhere& object = elsewhere_[id];
  if (is_new) {
    object.home = hold.home();
    TellExchange(id, v1::ElsewhereNotice::HOLD);
  }
  if (!hold.answer()) return absl::OkStatus();
  reply.set_pending(!hold.stay() || !object.held);
  if (hold.stay() || object.fetching) return absl::OkStatus();
  object.fetching = true;
  TellExchange(id, v1::ElsewhereNotice::FETCH);
  return absl::OkStatus();
}

void ObjectBroker::TellExchange(const ObjectId& id, v1::ElsewhereNotice::What what) {
  if (exchange_ == 0) return;  // It is told when it opens.
  v1::ObjectNotice notice;
  *notice.mutable_elsewhere()->mutable_name() = id.ToProto();
  notice.mutable_elsewhere()->set_what(what);
  auto object = elsewhere_.find(id);
  if (object != elsewhere_.end()) *notice.mutable_elsewhere()->mutable_home() = object->second.home;
  lines_.Notify(exchange_, notice);
}

void ObjectBroker::OpenExchange(ObjectProcess process) {
  exchange_ = process;
  for (const auto& [id, object] : elsewhere_) {
    TellExchange(id, object.fetching ? v1::ElsewhereNotice::FETCH : v1::ElsewhereNotice::HOLD);
  }
}

void ObjectBroker::TakeElsewhere(ObjectProcess from, const v1::TellElsewhere& tell) {
  ObjectId id = ObjectId::FromProto(tell.name());
  v1::ObjectNotice notice;
  *notice.mutable_arrived()->mutable_name() = tell.name();
  if (id.process == from && tell.has_error()) {
    MutexLock lock(mutex_);
    *notice.mutable_arrived()->mutable_name() = holds_.Outside(id).ToProto();
    *notice.mutable_arrived()->mutable_error() = tell.error();
    return lines_.NotifyAllBut(from, notice);
  }
  auto object = elsewhere_.find(id);
  if (from != exchange_ || object == elsewhere_.end()) return;
  if (tell.has_error()) {
    object->second.fetching = false;
    *notice.mutable_arrived()->mutable_error() = tell.error();
  } else if (tell.has_copy()) {
    object->second.fetching = false;
    MutexLock lock(mutex_);
    // Nobody waits for it any more, or it has come back by itself: the exchange lets go of its copy.
    (void)holds_.Arrived(id, ObjectId::FromProto(tell.copy()));
  } else {
    object->second.held = true;
  }
  lines_.NotifyAllBut(from, notice);
}

}  // namespace troupe
