// SPDX-License-Identifier: Apache-2.0
// What a caller sends of a call. Private to this folder.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/transport/envelope.h"

namespace troupe {

// A call whose answer is wanted under `id` (0: one way). `arguments`: an encoded tuple.
inline Envelope CallEnvelope(uint64_t id, std::shared_ptr<const CallRoute> route, std::string arguments,
                             absl::Duration timeout) {
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCall;
  envelope.call_id = id;
  envelope.route = std::move(route);
  envelope.bytes = std::move(arguments);
  envelope.timeout = timeout;
  return envelope;
}

}  // namespace troupe
