// SPDX-License-Identifier: Apache-2.0
// Envelopes as protobuf messages, for gRPC streams.
#pragma once

#include "runtime/transport/envelope.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

v1::Envelope ToProto(Envelope&& envelope);
// Kind kNone of a hello, and of what this version does not know.
Envelope FromProto(v1::Envelope&& envelope);

}  // namespace troupe
