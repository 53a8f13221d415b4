// SPDX-License-Identifier: Apache-2.0
// What a caller sends of a call. Private to this folder.
#pragma once

#include <string>
#include <utility>

#include "runtime/transport/envelope.h"

namespace troupe {

inline Envelope CallEnvelope(uint64_t id, const ActorLife& target, std::string method, std::string arguments,
                             absl::Duration timeout) {
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCall;
  envelope.call_id = id;
  envelope.target = target;
  envelope.method = std::move(method);
  envelope.bytes = std::move(arguments);
  envelope.timeout = timeout;
  return envelope;
}

inline void SetRepeats(uint64_t caller, uint64_t number, Envelope& call) {
  call.repeats = true;
  call.caller = caller;
  call.number = number;
}

}  // namespace troupe
