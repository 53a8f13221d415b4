// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/payload_port.h"

#include "runtime/base/status.h"

namespace troupe {

void PayloadPort::SendOut(FrameChannel& channel, PayloadSender::Out&& out) {
  for (Envelope& envelope : out.send) channel.SendAlways(std::move(envelope));
  busy_.store(!sender.idle(), std::memory_order_release);
}

absl::Status PayloadPort::Take(FrameChannel& channel, Envelope&& envelope,
                               std::vector<std::pair<Envelope, absl::Status>>& refused) {
  if (envelope.kind == Envelope::Kind::kChunk) {
    TROUPE_ASSIGN_OR_RETURN(std::vector<Envelope> credits, receiver_.TakeChunk(std::move(envelope)));
    for (Envelope& credit : credits) channel.SendAlways(std::move(credit));
    return absl::OkStatus();
  }
  MutexLock lock(mutex);
  TROUPE_ASSIGN_OR_RETURN(PayloadSender::Out out, sender.TakeCredit(envelope));
  refused = std::move(out.refused);
  SendOut(channel, std::move(out));
  return absl::OkStatus();
}

absl::Status PayloadPort::Finish(FrameChannel& channel, Envelope& envelope) {
  std::vector<Envelope> credits;
  TROUPE_ASSIGN_OR_RETURN(envelope.bytes, receiver_.Finish(envelope.transfer, credits));
  for (Envelope& credit : credits) channel.SendAlways(std::move(credit));
  return absl::OkStatus();
}

}  // namespace troupe
