// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/envelope_codec.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/base/status.h"
#include "runtime/transport/flat_fields.h"

namespace troupe {
namespace {

enum Tag : uint8_t {
  kCall = 1,
  kReply,
  kItem,
  kGrant,
  kCancel,
  kAck,
  kError,
  kRoute,
  kProbe,
  kConfirm,
  kChunk,
  kCredit,
  kPayload,
};
constexpr uint8_t kStreams = 1, kRepeats = 2;

void PutLife(const ActorLife& life, std::string& out) {
  PutText(life.path.job.value(), out);
  PutText(life.path.role, out);
  PutNumber(life.path.replica, out);
  PutNumber(life.incarnation, out);
}

// Writes the length of a record when it is whole.
class RecordScope {
 public:
  RecordScope(Tag tag, std::string& out) : out_(out), begin_(out.size()) {
    PutNumber(uint32_t{0}, out_);
    PutNumber(static_cast<uint8_t>(tag), out_);
  }
  ~RecordScope() {
    auto length = static_cast<uint32_t>(out_.size() + behind_ - begin_ - sizeof(uint32_t));
    std::memcpy(out_.data() + begin_, &length, sizeof(length));
  }
  // Ends it with those.
  void PutRest(const std::string& bytes, RecordBytes where) {
    if (where == RecordBytes::kWithin) out_.append(bytes);
    if (where == RecordBytes::kBehind) behind_ = bytes.size();
  }
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  std::string& out_;
  const size_t begin_;
  size_t behind_ = 0;
};

void PutRepeat(const RepeatKey& key, std::string& out) {
  for (uint64_t field : {key.caller, key.number, key.line, key.settled}) PutNumber(field, out);
}
RepeatKey TakeRepeat(FieldReader& fields) {
  RepeatKey key;
  for (uint64_t* field : {&key.caller, &key.number, &key.line, &key.settled}) *field = fields.Take<uint64_t>();
  return key;
}

ActorLife TakeLife(FieldReader& fields) {
  ActorLife life;
  life.path.job = JobId(fields.TakeText());
  life.path.role = fields.TakeText();
  life.path.replica = fields.Take<int32_t>();
  life.incarnation = fields.Take<uint64_t>();
  return life;
}

void PutStatus(const absl::Status& status, std::string& out) {
  std::string message = MessageOf(status);
  PutNumber(static_cast<uint8_t>(status.raw_code()), out);
  PutNumber(static_cast<uint32_t>(message.size()), out);
  out.append(message);
}

void WriteReply(const Envelope& envelope, std::string& out, RecordBytes bytes) {
  if (envelope.status.ok()) {
    RecordScope record(kReply, out);
    PutNumber(envelope.call_id, out);
    record.PutRest(envelope.bytes, bytes);
    return;
  }
  RecordScope record(kError, out);
  PutNumber(envelope.call_id, out);
  PutStatus(envelope.status, out);
  out.append(CallErrorOf(envelope.status).SerializeAsString());
}

absl::Status TakeStatus(FieldReader& fields) {
  auto code = fields.Take<uint8_t>();
  std::string message = fields.TakeBytes(fields.Take<uint32_t>());
  if (code == 0) return absl::OkStatus();
  bool known = code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, message);
}

absl::StatusOr<absl::Status> TakeError(FieldReader& fields) {
  absl::Status status = TakeStatus(fields);
  if (status.ok()) status = absl::UnknownError("");
  v1::CallError error;
  if (!error.ParseFromString(fields.TakeRest())) return absl::InvalidArgumentError("an error whose kind is not one");
  return WithCallError(status, error);
}

}  // namespace

uint32_t EnvelopeWriter::RouteOf(const std::shared_ptr<const CallRoute>& route, std::string& out) {
  if (route.get() == last_) return last_number_;
  auto found = routes_.find(route);
  if (found == routes_.end()) {
    if (routes_.size() >= kRoutesMax) routes_.clear();
    found = routes_.emplace(route, static_cast<uint32_t>(routes_.size())).first;
    RecordScope record(kRoute, out);
    PutNumber(found->second, out);
    PutLife(route->target, out);
    PutText(route->method, out);
  }
  last_ = route.get();
  last_number_ = found->second;
  return last_number_;
}

void EnvelopeWriter::Write(const Envelope& envelope, std::string& out, RecordBytes bytes) {
  bool is_transfer = envelope.kind == Envelope::Kind::kChunk || envelope.kind == Envelope::Kind::kCredit;
  if (envelope.transfer != 0 && !is_transfer) {
    RecordScope record(kPayload, out);
    PutNumber(envelope.transfer, out);
  }
  switch (envelope.kind) {
    case Envelope::Kind::kNone:
      return;
    case Envelope::Kind::kCall: {
      uint32_t route = RouteOf(envelope.route, out);
      RecordScope record(kCall, out);
      PutNumber(static_cast<uint8_t>((envelope.streams ? kStreams : 0) | (envelope.repeats ? kRepeats : 0)), out);
      PutNumber(route, out);
      PutNumber(envelope.call_id, out);
      PutNumber(absl::ToInt64Nanoseconds(envelope.timeout), out);
      for (uint64_t field : {envelope.items, envelope.item_bytes}) {
        if (envelope.streams) PutNumber(field, out);
      }
      if (envelope.repeats) PutRepeat(envelope.repeat, out);
      record.PutRest(envelope.bytes, bytes);
      return;
    }
    case Envelope::Kind::kReply:
      return WriteReply(envelope, out, bytes);
    case Envelope::Kind::kItem: {
      RecordScope record(kItem, out);
      PutNumber(envelope.call_id, out);
      record.PutRest(envelope.bytes, bytes);
      return;
    }
    case Envelope::Kind::kGrant: {
      RecordScope record(kGrant, out);
      for (uint64_t field : {envelope.call_id, envelope.items, envelope.item_bytes}) PutNumber(field, out);
      return;
    }
    case Envelope::Kind::kCancel: {
      RecordScope record(kCancel, out);
      PutNumber(envelope.call_id, out);
      PutLife(envelope.route->target, out);
      return;
    }
    case Envelope::Kind::kAck: {
      RecordScope record(kAck, out);
      PutRepeat(envelope.repeat, out);
      return;
    }
    case Envelope::Kind::kProbe:
    case Envelope::Kind::kConfirm: {
      RecordScope record(envelope.kind == Envelope::Kind::kProbe ? kProbe : kConfirm, out);
      record.PutRest(envelope.bytes, bytes);
      return;
    }
    case Envelope::Kind::kChunk: {
      RecordScope record(kChunk, out);
      for (uint64_t field : {envelope.transfer, envelope.items}) PutNumber(field, out);
      record.PutRest(envelope.bytes, bytes);
      return;
    }
    case Envelope::Kind::kCredit: {
      RecordScope record(kCredit, out);
      for (uint64_t field : {envelope.transfer, envelope.items}) PutNumber(field, out);
      PutStatus(envelope.status, out);
      return;
    }
  }
}

absl::Status EnvelopeReader::ReadRoute(std::string_view record) {
  FieldReader fields(record);
  auto route = fields.Take<uint32_t>();
  CallRoute read;
  read.target = TakeLife(fields);
  read.method = fields.TakeText();
  if (absl::Status end = fields.End("a route"); !end.ok()) return end;
  if (route > routes_.size() || route >= EnvelopeWriter::kRoutesMax) {
    return absl::InvalidArgumentError("route " + std::to_string(route) + " came where " +
                                      std::to_string(routes_.size()) + " was the next");
  }
  if (route == routes_.size()) routes_.emplace_back();
  routes_[route] = std::make_shared<const CallRoute>(std::move(read));
  return absl::OkStatus();
}

absl::Status EnvelopeReader::Read(std::string_view record, Envelope& envelope, std::string* beside) {
  TROUPE_RETURN_IF_ERROR(ReadOne(record, envelope, beside));
  if (transfer_ != 0 && envelope.kind != Envelope::Kind::kNone && envelope.transfer == 0) {
    envelope.transfer = std::exchange(transfer_, 0);
  }
  return absl::OkStatus();
}

absl::Status EnvelopeReader::ReadCall(FieldReader& fields, Envelope& envelope) {
  envelope.kind = Envelope::Kind::kCall;
  auto flags = fields.Take<uint8_t>();
  auto route = fields.Take<uint32_t>();
  envelope.call_id = fields.Take<uint64_t>();
  envelope.timeout = absl::Nanoseconds(fields.Take<int64_t>());
  if (flags > (kStreams | kRepeats)) return absl::InvalidArgumentError("a call with a flag that is not known");
  envelope.streams = (flags & kStreams) != 0;
  envelope.repeats = (flags & kRepeats) != 0;
  if (envelope.streams) {
    envelope.items = fields.Take<uint64_t>();
    envelope.item_bytes = fields.Take<uint64_t>();
  }
  if (envelope.repeats) envelope.repeat = TakeRepeat(fields);
  envelope.bytes = fields.TakeRest();
  if (absl::Status end = fields.End("a call"); !end.ok()) return end;
  if (route >= routes_.size()) {
    return absl::InvalidArgumentError("a call on route " + std::to_string(route) + ", which is not known");
  }
  envelope.route = routes_[route];
  return absl::OkStatus();
}

absl::Status EnvelopeReader::ReadOne(std::string_view record, Envelope& envelope, std::string* beside) {
  if (record.empty()) return absl::InvalidArgumentError("an empty message");
  auto tag = static_cast<uint8_t>(record[0]);
  FieldReader fields(record.substr(1), beside);
  switch (tag) {
    case kCall:
      return ReadCall(fields, envelope);
    case kReply:
    case kItem:
      envelope.kind = tag == kReply ? Envelope::Kind::kReply : Envelope::Kind::kItem;
      envelope.call_id = fields.Take<uint64_t>();
      envelope.bytes = fields.TakeRest();
      break;
    case kError: {
      envelope.kind = Envelope::Kind::kReply;
      envelope.call_id = fields.Take<uint64_t>();
      absl::StatusOr<absl::Status> error = TakeError(fields);
      if (!error.ok()) return error.status();
      envelope.status = *error;
      break;
    }
    case kGrant:
      envelope.kind = Envelope::Kind::kGrant;
      envelope.call_id = fields.Take<uint64_t>();
      envelope.items = fields.Take<uint64_t>();
      envelope.item_bytes = fields.Take<uint64_t>();
      break;
    case kCancel:
      envelope.kind = Envelope::Kind::kCancel;
      envelope.call_id = fields.Take<uint64_t>();
      envelope.route = std::make_shared<const CallRoute>(CallRoute{TakeLife(fields), ""});
      break;
    case kAck:
      envelope.kind = Envelope::Kind::kAck;
      envelope.repeat = TakeRepeat(fields);
      break;
    case kProbe:
    case kConfirm:
      envelope.kind = tag == kProbe ? Envelope::Kind::kProbe : Envelope::Kind::kConfirm;
      envelope.bytes = fields.TakeRest();
      break;
    case kChunk:
    case kCredit:
      envelope.kind = tag == kChunk ? Envelope::Kind::kChunk : Envelope::Kind::kCredit;
      envelope.transfer = fields.Take<uint64_t>();
      envelope.items = fields.Take<uint64_t>();
      if (tag == kChunk) {
        envelope.bytes = fields.TakeRest();
      } else {
        envelope.status = TakeStatus(fields);
      }
      if (envelope.transfer == 0) return absl::InvalidArgumentError("a part of no payload");
      break;
    case kPayload:
      transfer_ = fields.Take<uint64_t>();
      return fields.End("a payload's number");
    case kRoute:
      if (beside != nullptr) return absl::InvalidArgumentError("a route has no place for the bytes beside it");
      return ReadRoute(record.substr(1));
    default:
      return absl::InvalidArgumentError("a message of kind " + std::to_string(tag) + ", which is not known");
  }
  return fields.End("a message");
}

}  // namespace troupe
