// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/envelope_proto.h"

#include <algorithm>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/rpc/status.h"

namespace troupe {
namespace {

void Put(const Envelope& envelope, v1::StreamGrant& grant) {
  grant.set_call_id(envelope.call_id);
  grant.set_items(envelope.items);
  grant.set_bytes(envelope.item_bytes);
}
void Take(const v1::StreamGrant& grant, Envelope& envelope) {
  envelope.items = grant.items();
  envelope.item_bytes = grant.bytes();
}

void Put(const Envelope& envelope, v1::RetryKey& key) {
  key.set_caller(envelope.caller);
  key.set_number(envelope.number);
}
void Take(const v1::RetryKey& key, Envelope& envelope) {
  envelope.caller = key.caller();
  envelope.number = key.number();
}

void PutCall(Envelope&& envelope, v1::ActorCall& call) {
  call.set_call_id(envelope.call_id);
  *call.mutable_target() = envelope.route->target.ToProto();
  call.set_method(envelope.route->method);
  call.set_arguments(std::move(envelope.bytes));
  call.set_deadline_ms(std::max<int64_t>(absl::ToInt64Milliseconds(envelope.timeout), 1));
  if (envelope.streams) Put(envelope, *call.mutable_window());
  if (envelope.repeats) Put(envelope, *call.mutable_retry());
}
void TakeCall(v1::ActorCall& call, Envelope& envelope) {
  envelope.kind = Envelope::Kind::kCall;
  envelope.call_id = call.call_id();
  envelope.route = std::make_shared<const CallRoute>(
      CallRoute{ActorLife::FromProto(call.target()), std::move(*call.mutable_method())});
  envelope.bytes = std::move(*call.mutable_arguments());
  envelope.timeout = absl::Milliseconds(std::max<int64_t>(call.deadline_ms(), 0));
  envelope.streams = call.has_window();
  if (call.has_window()) Take(call.window(), envelope);
  envelope.repeats = call.has_retry();
  if (call.has_retry()) Take(call.retry(), envelope);
}

void PutReply(Envelope&& envelope, v1::ActorReply& reply) {
  reply.set_call_id(envelope.call_id);
  if (envelope.status.ok()) {
    reply.set_result(std::move(envelope.bytes));
  } else {
    *reply.mutable_status() = ToErrorStatus(envelope.status);
    *reply.mutable_error() = CallErrorOf(envelope.status);
  }
}
void TakeReply(v1::ActorReply& reply, Envelope& envelope) {
  envelope.kind = Envelope::Kind::kReply;
  envelope.call_id = reply.call_id();
  if (reply.status().code() == 0) {
    envelope.bytes = std::move(*reply.mutable_result());
  } else {
    envelope.status = WithCallError(FromErrorStatus(reply.status()), reply.error());
  }
}

}  // namespace

v1::Envelope ToProto(Envelope&& envelope) {
  v1::Envelope proto;
  bool is_transfer = envelope.kind == Envelope::Kind::kChunk || envelope.kind == Envelope::Kind::kCredit;
  if (!is_transfer) proto.set_transfer(envelope.transfer);
  switch (envelope.kind) {
    case Envelope::Kind::kNone:
      break;
    case Envelope::Kind::kCall:
      PutCall(std::move(envelope), *proto.mutable_call());
      break;
    case Envelope::Kind::kReply:
      PutReply(std::move(envelope), *proto.mutable_reply());
      break;
    case Envelope::Kind::kItem:
      proto.mutable_item()->set_call_id(envelope.call_id);
      proto.mutable_item()->set_value(std::move(envelope.bytes));
      break;
    case Envelope::Kind::kGrant:
      Put(envelope, *proto.mutable_grant());
      break;
    case Envelope::Kind::kCancel:
      proto.mutable_cancel()->set_call_id(envelope.call_id);
      *proto.mutable_cancel()->mutable_target() = envelope.route->target.ToProto();
      break;
    case Envelope::Kind::kAck:
      Put(envelope, *proto.mutable_ack()->mutable_key());
      break;
    case Envelope::Kind::kChunk:
      proto.mutable_chunk()->set_transfer(envelope.transfer);
      proto.mutable_chunk()->set_total_bytes(envelope.items);
      proto.mutable_chunk()->set_bytes(std::move(envelope.bytes));
      break;
    case Envelope::Kind::kCredit:
      proto.mutable_credit()->set_transfer(envelope.transfer);
      proto.mutable_credit()->set_bytes(envelope.items);
      if (!envelope.status.ok()) *proto.mutable_credit()->mutable_refused() = ToErrorStatus(envelope.status);
      break;
    case Envelope::Kind::kProbe:
      static_cast<void>(proto.mutable_probe()->ParseFromString(envelope.bytes));
      break;
    case Envelope::Kind::kConfirm:
      static_cast<void>(proto.mutable_confirm()->ParseFromString(envelope.bytes));
      break;
  }
  return proto;
}

Envelope FromProto(v1::Envelope&& proto) {
  Envelope envelope;
  if (proto.has_call()) {
    TakeCall(*proto.mutable_call(), envelope);
  } else if (proto.has_reply()) {
    TakeReply(*proto.mutable_reply(), envelope);
  } else if (proto.has_item()) {
    envelope.kind = Envelope::Kind::kItem;
    envelope.call_id = proto.item().call_id();
    envelope.bytes = std::move(*proto.mutable_item()->mutable_value());
  } else if (proto.has_grant()) {
    envelope.kind = Envelope::Kind::kGrant;
    envelope.call_id = proto.grant().call_id();
    Take(proto.grant(), envelope);
  } else if (proto.has_cancel()) {
    envelope.kind = Envelope::Kind::kCancel;
    envelope.call_id = proto.cancel().call_id();
    envelope.route = std::make_shared<const CallRoute>(CallRoute{ActorLife::FromProto(proto.cancel().target()), ""});
  } else if (proto.has_ack()) {
    envelope.kind = Envelope::Kind::kAck;
    Take(proto.ack().key(), envelope);
  } else if (proto.has_chunk()) {
    envelope.kind = Envelope::Kind::kChunk;
    envelope.transfer = proto.chunk().transfer();
    envelope.items = proto.chunk().total_bytes();
    envelope.bytes = std::move(*proto.mutable_chunk()->mutable_bytes());
    return envelope;
  } else if (proto.has_credit()) {
    envelope.kind = Envelope::Kind::kCredit;
    envelope.transfer = proto.credit().transfer();
    envelope.items = proto.credit().bytes();
    envelope.status = FromErrorStatus(proto.credit().refused());
    return envelope;
  } else if (proto.has_probe()) {
    envelope = ProbeEnvelope(Envelope::Kind::kProbe, proto.probe().SerializeAsString());
  } else if (proto.has_confirm()) {
    envelope = ProbeEnvelope(Envelope::Kind::kConfirm, proto.confirm().SerializeAsString());
  }
  envelope.transfer = proto.transfer();
  return envelope;
}

absl::Status TakeEnvelopes(v1::Frame& frame, EnvelopeSink& sink) {
  for (v1::Envelope& envelope : *frame.mutable_envelopes()) {
    TROUPE_RETURN_IF_ERROR(sink.Take(FromProto(std::move(envelope))));
  }
  return absl::OkStatus();
}

}  // namespace troupe
