// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what another process may send: the records of envelopes, frames of gRPC streams, the offer of rings,
// and the memory of the rings itself. Any bytes give what was sent or an error; what was read is written as the same.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/transport/envelope_codec.h"
#include "runtime/transport/frame_session.h"
#include "runtime/transport/ring.h"
#include "runtime/transport/ring_handshake.h"

namespace troupe {
namespace {

constexpr size_t kRing = kRingBytesMin;
constexpr uint64_t kEpoch = 7;
constexpr size_t kRings = 4096;  // Where the bytes of side 0's ring begin.

bool Same(const std::shared_ptr<const CallRoute>& a, const std::shared_ptr<const CallRoute>& b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->target == b->target && a->method == b->method;
}

bool Same(const Envelope& a, const Envelope& b) {
  return a.kind == b.kind && a.streams == b.streams && a.repeats == b.repeats && a.call_id == b.call_id &&
         Same(a.route, b.route) && a.bytes == b.bytes && a.timeout == b.timeout && a.items == b.items &&
         a.item_bytes == b.item_bytes && a.repeat == b.repeat && a.status.code() == b.status.code() &&
         a.status.message() == b.status.message() && a.transfer == b.transfer;
}

// Records behind each other; each that can be read is written and read again.
void TryRecords(std::string_view bytes) {
  EnvelopeReader reader, second;
  EnvelopeWriter writer;
  uint32_t length = 0;
  while (bytes.size() >= sizeof(length)) {
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    std::string_view record = bytes.substr(0, length);
    bytes.remove_prefix(record.size());
    Envelope envelope;
    if (!reader.Read(record, envelope).ok()) return;
    if (envelope.kind == Envelope::Kind::kNone) continue;
    std::string again;
    writer.Write(envelope, again);
    Envelope last;
    for (std::string_view left = again; !left.empty();) {
      std::memcpy(&length, left.data(), sizeof(length));
      last = {};
      if (!second.Read(left.substr(sizeof(length), length), last).ok()) std::abort();
      left.remove_prefix(sizeof(length) + length);
    }
    if (!Same(envelope, last)) std::abort();
  }
}

// A frame of a gRPC stream, as protobuf.
void TryFrame(std::string_view bytes) {
  v1::Frame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  (void)FrameSession::HelloOf(frame);
  FrameSession session;
  EnvelopeReader reader;
  (void)session.Take(frame);
  (void)FrameSession::TakeEnvelopes(frame, reader, [](Envelope&&) { return absl::OkStatus(); });
}

// The first byte says where the others are written over the memory after a few right frames.
void TryMemory(std::string_view bytes) {
  if (bytes.size() < 2) return;
  SharedMemory memory = SharedMemory::Create("fuzz", RingEnd::MemoryBytes(kRing)).value();
  char* raw = reinterpret_cast<char*>(memory.data());
  int copy = memory.fd();
  SharedMemory other = SharedMemory::Map(UniqueFd(::dup(copy)), RingEnd::MemoryBytes(kRing)).value();
  auto a = RingEnd::Create(std::move(memory), kRing, kEpoch);
  auto b = RingEnd::Join(std::move(other), kRing, kEpoch).value();
  for (int i = 0; i < 3; ++i) (void)a->Write("a frame that is right").value();
  size_t at = static_cast<unsigned char>(bytes[0]) * 8u;  // Counters below 4096, frames above it.
  if (at >= 1024) at = kRings + (at - 1024);
  std::string_view damage = bytes.substr(1).substr(0, 64);
  std::memcpy(raw + at, damage.data(), damage.size());
  size_t taken = 0;
  auto count = [&taken](std::string_view frame) {
    taken += frame.size();
    return absl::OkStatus();
  };
  for (int i = 0; i < 4 && b->Readable() && b->Read(count).ok(); ++i) {
  }
  if (taken > 4 * kRing) std::abort();
  for (int i = 0; i < 4; ++i) (void)b->Write("an answer");
  (void)a->Read(count);
}

}  // namespace
}  // namespace troupe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  troupe::TryRecords(bytes);
  troupe::TryFrame(bytes);
  if (size < 128) troupe::TryMemory(bytes);
  (void)troupe::DecodeOffer(bytes);
  (void)troupe::DecodeRingStatus(bytes);
  return 0;
}
