// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ring_handshake.h"

#include "runtime/base/status.h"
#include "runtime/transport/flat_fields.h"

namespace troupe {
namespace {

constexpr uint64_t kOfferMagic = 0x726566664f676e52u;
constexpr uint64_t kStatusMagic = 0x737574615367526eu;
// So that a packet holds it.
constexpr size_t kTextBytesMax = 2048;

}  // namespace

std::string EncodeOffer(const RingOffer& offer) {
  std::string packet;
  PutNumber(kOfferMagic, packet);
  PutNumber(offer.version, packet);
  PutNumber(offer.ring_bytes, packet);
  PutNumber(offer.epoch, packet);
  PutText(offer.token.substr(0, kTextBytesMax), packet);
  PutText(offer.process.substr(0, kTextBytesMax), packet);
  PutNumber(static_cast<uint8_t>(offer.resumes), packet);
  return packet;
}

absl::StatusOr<RingOffer> DecodeOffer(std::string_view packet) {
  FieldReader fields(packet);
  if (fields.Take<uint64_t>() != kOfferMagic) return absl::InvalidArgumentError("what came is no offer of rings");
  RingOffer offer;
  offer.version = fields.Take<uint32_t>();
  if (offer.version != kRingVersion) {
    return absl::FailedPreconditionError("the other process speaks version " + std::to_string(offer.version) +
                                         " of the rings, this one version " + std::to_string(kRingVersion) +
                                         ": install the same Troupe on both");
  }
  offer.ring_bytes = fields.Take<uint64_t>();
  offer.epoch = fields.Take<uint64_t>();
  offer.token = fields.TakeText();
  offer.process = fields.TakeText();
  auto resumes = fields.Take<uint8_t>();
  if (resumes > 1) return absl::InvalidArgumentError("an offer of rings with a flag that is not known");
  offer.resumes = resumes == 1;
  if (absl::Status end = fields.End("an offer of rings"); !end.ok()) return end;
  return offer;
}

std::string EncodeRingStatus(const absl::Status& status) {
  std::string packet;
  PutNumber(kStatusMagic, packet);
  PutNumber(static_cast<uint8_t>(status.raw_code()), packet);
  PutText(MessageOf(status).substr(0, kTextBytesMax), packet);
  return packet;
}

absl::Status DecodeRingStatus(std::string_view packet) {
  FieldReader fields(packet);
  bool magic = fields.Take<uint64_t>() == kStatusMagic;
  auto code = fields.Take<uint8_t>();
  std::string text = fields.TakeText();
  if (!magic || !fields.End("a status").ok() || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError("what came on the rings' socket is no status");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

std::string RingSocketPath(std::string_view endpoint) {
  constexpr std::string_view kScheme = "unix:", kSuffix = ".sock";
  if (!endpoint.starts_with(kScheme)) return "";
  std::string path(endpoint.substr(kScheme.size()));
  if (path.ends_with(kSuffix)) path.resize(path.size() - kSuffix.size());
  return path + ".ring";
}

}  // namespace troupe
