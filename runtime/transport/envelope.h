// SPDX-License-Identifier: Apache-2.0
// Envelope: one message between two processes, as sessions see it; proto/troupe/v1/actor.proto says what each means. A
// gRPC stream carries it as protobuf (envelope_proto.h), rings in a flat encoding (envelope_codec.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/ids.h"

namespace troupe {

// What a call names: one life of an actor, and a method of it. Shared by all calls of the kind and never changed, so
// that none of them copies names.
struct CallRoute {
  ActorLife target;
  std::string method;
};

// Which call it is, of one that may come again; the same in its ack.
struct RepeatKey {
  uint64_t caller = 0;   // Random: the caller's process, and its endpoint for this one.
  uint64_t number = 0;   // Of the call, among those of the caller; from 1.
  uint64_t line = 0;     // The caller's number of the connection that it is sent on. Grows: it goes on on the newest.
  uint64_t settled = 0;  // The caller sends no call below that number any more, and wants no reply to one.

  friend bool operator==(const RepeatKey&, const RepeatKey&) = default;
};

struct Envelope {
  enum class Kind : uint8_t { kNone, kCall, kReply, kItem, kGrant, kCancel, kAck, kProbe, kConfirm, kChunk, kCredit };

  Kind kind = Kind::kNone;
  bool streams = false;                    // A call: items are wanted, `items` and `item_bytes` of them at first.
  bool repeats = false;                    // A call: it may come again, under the same `repeat`.
  uint64_t call_id = 0;                    // Calls and what answers or follows them; 0: a call without a reply.
  std::shared_ptr<const CallRoute> route;  // Calls; cancels, without a method.
  std::string bytes;                       // Calls: the arguments. Replies: the result. Items: the value. Probes.
  absl::Duration timeout;                  // Calls.
  uint64_t items = 0;                      // Grants, calls of streams. Chunks: bytes in all. Credits: bytes.
  uint64_t item_bytes = 0;                 // Grants, calls of streams.
  RepeatKey repeat;                        // Acks, calls that repeat.
  absl::Status status;                     // Replies: with its CallError. Credits: why the payload is refused.
  uint64_t transfer = 0;                   // Chunks, credits; what follows its payload, which came as those chunks.
};

// An encoded CircleProbe, on its way along calls or back.
inline Envelope ProbeEnvelope(Envelope::Kind kind, std::string probe) {
  Envelope envelope;
  envelope.kind = kind;
  envelope.bytes = std::move(probe);
  return envelope;
}

}  // namespace troupe
