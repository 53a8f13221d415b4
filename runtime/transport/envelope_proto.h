// SPDX-License-Identifier: Apache-2.0
// Envelopes as gRPC streams carry them.
#pragma once

#include "absl/status/status.h"
#include "runtime/transport/envelope.h"
#include "runtime/transport/frame_channel.h"
#include "troupe/v1/actor.pb.h"

namespace troupe {

v1::Envelope ToProto(Envelope&& envelope);
// An envelope that has nothing (or a hello) gives kind kNone.
Envelope FromProto(v1::Envelope&& proto);

// Hands a frame's envelopes, which it uses up, to the session.
absl::Status TakeEnvelopes(v1::Frame& frame, EnvelopeSink& sink);

}  // namespace troupe
