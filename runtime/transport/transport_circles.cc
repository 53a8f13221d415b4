// SPDX-License-Identifier: Apache-2.0
// Transport's part in finding circles of waits across processes: drives a CircleFinder by the timer and by what comes
// on streams.
#include <optional>
#include <utility>

#include "runtime/actor/call_error.h"
#include "runtime/env/clock.h"
#include "runtime/transport/client_stream.h"
#include "runtime/transport/envelope.h"
#include "runtime/transport/server_session.h"
#include "runtime/transport/transport.h"

namespace troupe {

void Transport::WatchWaits() {
  MutexLock lock(mutex_);
  circles_at_ = MonotonicNow() + kCircleTick;
  if (circles_at_ < timer_at_) timer_changed_.NotifyAll();
}

void Transport::LookForCircles(Monotonic now) {
  {
    MutexLock lock(mutex_);
    if (now < circles_at_) return;
    circles_at_ = now + kCircleTick;
  }
  CircleFinder::Actions actions;
  uint64_t mark = 0;
  {
    MutexLock lock(circles_mutex_);
    mark = circles_.mark();
    actions = circles_.Tick();
  }
  Do(std::move(actions));
  MutexLock lock(mutex_);
  if (waits().Rest(mark)) circles_at_ = Monotonic::Infinite();
}

absl::Status Transport::TakeProbe(uint64_t session, const std::string& bytes) {
  absl::StatusOr<CircleProbe> probe = CircleProbe::Decode(bytes);
  if (!probe.ok()) return probe.status();
  CircleFinder::Actions actions;
  {
    MutexLock lock(circles_mutex_);
    actions = circles_.TakeProbe(*std::move(probe), session);
  }
  Do(std::move(actions));
  return absl::OkStatus();
}

absl::Status Transport::TakeConfirm(const std::string& bytes) {
  absl::StatusOr<CircleProbe> probe = CircleProbe::Decode(bytes);
  if (!probe.ok()) return probe.status();
  CircleFinder::Actions actions;
  {
    MutexLock lock(circles_mutex_);
    actions = circles_.TakeConfirm(*std::move(probe));
  }
  Do(std::move(actions));
  return absl::OkStatus();
}

void Transport::Do(CircleFinder::Actions actions) {
  using Kind = CircleFinder::Action::Kind;
  for (CircleFinder::Action& action : actions) {
    if (action.kind == Kind::kConfirm) {
      const uint64_t call = action.probe.steps[action.probe.unconfirmed - 1].call;
      receiver_->Confirm(action.to, call, ProbeEnvelope(Envelope::Kind::kConfirm, action.probe.Encode()));
      continue;
    }
    if (action.kind == Kind::kFound) {
      if (auto call = local_calls()->Find(action.to))
        call->Fail(CallErrorStatus(v1::CallError::CALL_DEADLOCK, action.text));
    }
    std::unique_ptr<OpenCall> found;
    std::shared_ptr<ClientStream> stream;
    {
      MutexLock lock(mutex_);
      const OpenCall* call = calls_.Find(action.to);
      if (call == nullptr) continue;
      if (action.kind == Kind::kFound) {
        found = calls_.Take(action.to);
      } else if (call->stream != 0) {
        stream = OpenStream(call->stream);
      }
    }
    if (stream != nullptr) stream->SendAlways(ProbeEnvelope(Envelope::Kind::kProbe, action.probe.Encode()));
    if (found == nullptr) continue;
    Abandon(*found);  // Nobody waits for it any more.
    found->reply(CallErrorStatus(v1::CallError::CALL_DEADLOCK, action.text));
  }
}

}  // namespace troupe
