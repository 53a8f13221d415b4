// SPDX-License-Identifier: Apache-2.0
// RingHub's watcher: what it sees on the sockets, and what becomes of rings whose socket broke.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/process.h"
#include "runtime/transport/ring_channel.h"
#include "runtime/transport/ring_handshake.h"
#include "runtime/transport/ring_hub.h"

namespace troupe {
namespace {

// Between attempts to connect again, and while the break of a socket is not noticed here yet.
constexpr absl::Duration kRedialPause = absl::Milliseconds(2);
// After a wait that failed (out of descriptors).
constexpr absl::Duration kWatchPause = absl::Milliseconds(50);

absl::Status OtherHasEnded() { return absl::UnavailableError("the other process has ended"); }

}  // namespace

void RingHub::Watch() {
  while (true) {
    std::vector<std::shared_ptr<RingChannel>> watched, detached;  // Held while their descriptors are waited for.
    std::shared_ptr<UnixListener> listener;
    std::vector<int> fds = {woken_.fd()};
    Monotonic until = Monotonic::Infinite();
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      listener = listener_;
      if (listener != nullptr) fds.push_back(listener->fd());
      watched = watched_;
      for (const auto& channel : watched) fds.push_back(channel->socket().fd());
      detached = detached_;
      for (const auto& channel : detached) {
        until = std::min(until, channel->waits_until);
        if (channel->other_process.valid()) fds.push_back(channel->other_process.get());
      }
    }
    const size_t first = listener == nullptr ? 1 : 2;
    absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, until);
    if (!ready.ok()) {
      PauseFor(kWatchPause);
      continue;
    }
    for (size_t at : *ready) {
      if (at == 0) {
        static_cast<void>(woken_.Receive(kRingPacketBytesMax, Monotonic()));
      } else if (at < first) {
        AcceptOne(*listener);
      } else if (at < first + watched.size()) {
        Hear(watched[at - first]);
      }
    }
    EndDetached(MonotonicNow());
  }
}

void RingHub::Hear(const std::shared_ptr<RingChannel>& channel) {
  absl::StatusOr<UnixPacket> farewell = TakePacket(channel->socket(), Monotonic());
  if (absl::IsDeadlineExceeded(farewell.status())) return;
  {
    MutexLock lock(mutex_);
    std::erase(watched_, channel);
  }
  if (farewell.ok()) {
    absl::Status why = DecodeRingStatus(farewell->bytes);
    if (why.ok()) why = absl::UnavailableError("the other process closed the rings");
    return channel->pipe().End(why, true);
  }
  if (channel->dialed.empty()) return Detach(channel);
  absl::Status started = StartThread(false, [this, channel](Thread&) { Redial(channel); });
  if (started.ok()) return;
  channel->pipe().End(absl::UnavailableError("the socket beside the rings broke, and cannot be connected again: " +
                                             StatusText(started)),
                      true);
}

void RingHub::Redial(const std::shared_ptr<RingChannel>& channel) {
  const Monotonic until = MonotonicNow() + options_.session_timeout;
  std::shared_ptr<EnvelopeSink> sink;
  {
    MutexLock lock(mutex_);
    sink = channel->sink();
  }
  absl::StatusOr<bool> resumed = OfferAgain(channel, options_.session_timeout);
  if (resumed.ok() && sink != nullptr) {
    ++options_.counters->broken;
    sink->Broken(absl::UnavailableError("the socket beside the rings broke"));
  }
  while (resumed.ok() && !*resumed) {
    PauseFor(kRedialPause);
    absl::Duration left = until - MonotonicNow();
    resumed = left > absl::ZeroDuration()
                  ? OfferAgain(channel, left)
                  : absl::DeadlineExceededError("the other process could not be reached again in time");
  }
  if (!resumed.ok()) return channel->pipe().End(resumed.status(), true);
  ++options_.counters->resumed;
  if (sink != nullptr) sink->Resumed();
}

absl::StatusOr<bool> RingHub::OfferAgain(const std::shared_ptr<RingChannel>& channel, absl::Duration timeout) {
  absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(channel->dialed, UnixSocketKind::kSeqPacket);
  if (!socket.ok()) return OtherHasEnded();  // Nobody listens there.
  TROUPE_RETURN_IF_ERROR(CheckUser(*socket));
  RingOffer offer;
  offer.epoch = channel->epoch;
  offer.token = options_.token;
  offer.process = options_.process_name;
  offer.resumes = true;
  static_cast<void>(socket->Send(EncodeOffer(offer), {}, MonotonicNow() + kHandshakeTimeout));
  absl::StatusOr<UnixPacket> answer = Receive(*socket, std::min(timeout, kHandshakeTimeout));
  if (absl::IsCancelled(answer.status())) return absl::UnavailableError("the process is stopping");
  if (!answer.ok()) return false;
  TROUPE_RETURN_IF_ERROR(DecodeRingStatus(answer->bytes));
  MutexLock lock(mutex_);
  if (!Watch(channel, *socket)) return absl::UnavailableError("the rings have ended");
  return true;
}

bool RingHub::Watch(const std::shared_ptr<RingChannel>& channel, UnixSocket& socket) {
  if (stopping_ || channel->ended) return false;
  channel->socket() = std::move(socket);
  watched_.push_back(channel);
  WakeWatcher();
  return true;
}

void RingHub::Detach(const std::shared_ptr<RingChannel>& channel) {
  absl::StatusOr<PeerCredentials> other = channel->socket().Credentials();
  absl::StatusOr<UniqueFd> process = absl::UnknownError("of another process namespace");
  if (other.ok() && other->pid > 0) process = OpenProcess(other->pid);
  if (absl::IsNotFound(process.status())) return channel->pipe().End(OtherHasEnded(), true);
  MutexLock lock(mutex_);
  if (channel->ended) return;
  if (process.ok()) channel->other_process = *std::move(process);
  channel->waits_until = MonotonicNow() + options_.session_timeout;
  detached_.push_back(channel);
}

void RingHub::EndDetached(Monotonic now) {
  std::vector<std::shared_ptr<RingChannel>> ended;
  {
    MutexLock lock(mutex_);
    for (const auto& channel : detached_) {
      int process = channel->other_process.get();
      bool gone = process >= 0 && WaitForDescriptor(process, POLLIN, Monotonic()).ok();
      if (gone || channel->waits_until <= now) ended.push_back(channel);
    }
    for (const auto& channel : ended) std::erase(detached_, channel);
  }
  for (const auto& channel : ended) channel->pipe().End(OtherHasEnded(), true);
}

absl::Status RingHub::Reattach(UnixSocket& socket, uint64_t epoch) {
  auto is_it = [epoch](const std::shared_ptr<RingChannel>& channel) {
    return channel->epoch == epoch && channel->dialed.empty();
  };
  for (const Monotonic until = MonotonicNow() + kHandshakeTimeout; MonotonicNow() < until; PauseFor(kRedialPause)) {
    MutexLock lock(mutex_);
    auto found = std::find_if(detached_.begin(), detached_.end(), is_it);
    if (found != detached_.end()) {
      std::shared_ptr<RingChannel> channel = *found;
      detached_.erase(found);
      Tell(socket, absl::OkStatus());
      if (Watch(channel, socket)) return absl::OkStatus();
      break;
    }
    if (std::none_of(watched_.begin(), watched_.end(), is_it)) break;  // Else its break is about to be noticed.
  }
  return absl::AbortedError("no rings of that epoch wait here: this is another process, or they have ended");
}

}  // namespace troupe
