// SPDX-License-Identifier: Apache-2.0
// Envelope: one message between two processes, as sessions see it; proto/troupe/v1/actor.proto says what each means. A
// gRPC stream carries it as protobuf (envelope_proto.h), rings in a flat encoding (envelope_codec.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

struct Envelope {
  enum class Kind : uint8_t { kNone, kCall, kReply, kItem, kGrant, kCancel, kAck };

  Kind kind = Kind::kNone;
  bool streams = false;                    // A call: items are wanted, `items` and `item_bytes` of them at first.
  bool repeats = false;                    // A call: it may come again, as (caller, number).
  uint64_t call_id = 0;                    // All but acks; 0: a call without a reply.
  std::shared_ptr<const CallRoute> route;  // Calls; cancels, without a method.
  std::string bytes;                       // Calls: the arguments. Replies: the result. Items: the value.
  absl::Duration timeout;                  // Calls.
  uint64_t items = 0;                      // Grants, calls of streams.
  uint64_t item_bytes = 0;                 // Grants, calls of streams.
  uint64_t caller = 0;                     // Acks, calls that repeat.
  uint64_t number = 0;                     // Acks, calls that repeat.
  absl::Status status;                     // Replies: with its CallError.
};

}  // namespace troupe
