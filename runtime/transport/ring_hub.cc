// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ring_hub.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/secret.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/env/thread.h"
#include "runtime/transport/ring_channel.h"
#include "runtime/transport/ring_handshake.h"

namespace troupe {
namespace {

constexpr absl::Duration kStopPoll = absl::Milliseconds(20);
// Of a thread that would read while another one does.
constexpr int kIdleTries = 4;
// Of a dial whose socket breaks before the answer: gRPC instead would be for long.
constexpr int kDialTries = 3;
// Threads beside one for each pair, and a second one for each whose socket broke: of handshakes that go no further.
constexpr size_t kHandshakesMax = 16;
// After an accept that failed (out of descriptors).
constexpr absl::Duration kAcceptPause = absl::Milliseconds(50);

// Of a handshake that went no further; nothing in it was wrong.
bool IsBreak(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

absl::Status RingHub::CheckUser(const UnixSocket& socket) {
  TROUPE_ASSIGN_OR_RETURN(PeerCredentials peer, socket.Credentials());
  if (peer.uid == ::geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError("the other process is of user " + std::to_string(peer.uid));
}

// What is there. A side that closed with something unread makes the first look an error, before what it said.
absl::StatusOr<UnixPacket> RingHub::TakePacket(UnixSocket& socket, Monotonic deadline) {
  absl::StatusOr<UnixPacket> packet = socket.Receive(kRingPacketBytesMax, deadline);
  if (packet.ok() || absl::IsDeadlineExceeded(packet.status())) return packet;
  absl::StatusOr<UnixPacket> second = socket.Receive(kRingPacketBytesMax, Monotonic());
  return second.ok() ? std::move(second) : std::move(packet);
}

void RingHub::Tell(UnixSocket& socket, const absl::Status& status) {
  static_cast<void>(socket.Send(EncodeRingStatus(status), {}, Monotonic()));
}

std::shared_ptr<RingHub> RingHub::Create(RingHubOptions options) {
  return std::shared_ptr<RingHub>(new RingHub(std::move(options)));
}

RingHub::~RingHub() = default;

absl::Status RingHub::Serve(const std::string& path, Accept accept) {
  TROUPE_ASSIGN_OR_RETURN(UnixListener listener, UnixListener::Listen(path, UnixSocketKind::kSeqPacket));
  MutexLock lock(mutex_);
  if (stopping_) return absl::UnavailableError("this process is stopping");
  TROUPE_RETURN_IF_ERROR(StartWatcher());
  listener_ = std::make_shared<UnixListener>(std::move(listener));
  accept_ = std::move(accept);
  WakeWatcher();
  return absl::OkStatus();
}

void RingHub::Dial(const std::string& path, std::shared_ptr<EnvelopeSink> sink, Dialed dialed) {
  absl::Status started = StartThread(true, [this, path, sink = std::move(sink), dialed](Thread&) {
    absl::StatusOr<UnixSocket> socket = absl::UnknownError("not dialed");
    absl::StatusOr<std::unique_ptr<RingEnd>> end = absl::UnavailableError("not dialed");
    uint64_t epoch = 0;
    for (int tries = 0; tries < kDialTries && absl::IsUnavailable(end.status()); ++tries) {
      socket = UnixSocket::Connect(path, UnixSocketKind::kSeqPacket);
      if (!socket.ok()) return dialed(socket.status());
      epoch = RandomUint64();
      end = Offer(*socket, epoch);
    }
    if (!end.ok()) return dialed(end.status());
    auto channel =
        std::make_shared<RingChannel>(*std::move(socket), *std::move(end), options_.pipe, epoch, path, nullptr);
    channel->SetSink(sink);
    sink->Greeted();
    dialed(channel);
    Run(channel);
  });
  if (!started.ok()) dialed(started);
}

absl::StatusOr<UnixPacket> RingHub::Receive(UnixSocket& socket, absl::Duration timeout) {
  for (const Monotonic limit = MonotonicNow() + timeout; MonotonicNow() < limit;) {
    absl::StatusOr<UnixPacket> packet = TakePacket(socket, MonotonicNow() + kStopPoll);
    if (!absl::IsDeadlineExceeded(packet.status())) return packet;
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("this process is stopping");
  }
  return absl::DeadlineExceededError("the other process did not answer on the rings' socket");
}

absl::StatusOr<std::unique_ptr<RingEnd>> RingHub::Offer(UnixSocket& socket, uint64_t epoch) {
  TROUPE_RETURN_IF_ERROR(CheckUser(socket));
  RingOffer offer;
  offer.ring_bytes = options_.ring_bytes;
  offer.epoch = epoch;
  offer.token = options_.token;
  offer.process = options_.process_name;
  TROUPE_ASSIGN_OR_RETURN(SharedMemory memory,
                          SharedMemory::Create("troupe-rings", RingEnd::MemoryBytes(options_.ring_bytes)));
  UniqueFd fd = memory.TakeDescriptor();
  std::unique_ptr<RingEnd> end = RingEnd::Create(std::move(memory), options_.ring_bytes, offer.epoch);
  absl::Status sent = socket.Send(EncodeOffer(offer), {fd.get()}, MonotonicNow() + kHandshakeTimeout);
  absl::StatusOr<UnixPacket> answer = Receive(socket);  // Perhaps it was refused before it was sent.
  if (answer.ok()) TROUPE_RETURN_IF_ERROR(DecodeRingStatus(answer->bytes));
  TROUPE_RETURN_IF_ERROR(sent);
  if (!answer.ok()) return answer.status();
  return end;
}

void RingHub::Answer(UnixSocket socket, Thread& thread) {
  std::vector<UniqueFd> fds;
  absl::StatusOr<RingOffer> offer = TakeOffer(socket, fds);
  if (offer.ok() && offer->resumes) {
    absl::Status resumed = Reattach(socket, offer->epoch);
    if (resumed.ok()) return;
    ++options_.counters->refused_sessions;
    return Tell(socket, resumed);
  }
  using End = absl::StatusOr<std::unique_ptr<RingEnd>>;
  End end = offer.ok() ? TakeRings(*offer, std::move(fds)) : End(offer.status());
  if (!end.ok()) {
    if (!IsBreak(end.status())) ++options_.counters->refused_frames;
    return Tell(socket, end.status());
  }
  if (absl::Status room = BecomePair(thread); !room.ok()) return Tell(socket, room);
  RingPipeOptions pipe = options_.pipe;
  pipe.pauses = true;
  auto channel = std::make_shared<RingChannel>(std::move(socket), *std::move(end), pipe, offer->epoch, "", this);
  Accept accept;
  {
    MutexLock lock(mutex_);
    accept = accept_;
  }
  std::shared_ptr<EnvelopeSink> sink = accept ? accept(channel, offer->process) : nullptr;
  if (sink == nullptr) return Tell(channel->socket(), absl::UnavailableError("the process is stopping"));
  channel->SetSink(sink);
  sink->Greeted();
  Tell(channel->socket(), absl::OkStatus());
  Run(channel);
}

absl::StatusOr<RingOffer> RingHub::TakeOffer(UnixSocket& socket, std::vector<UniqueFd>& fds) {
  TROUPE_RETURN_IF_ERROR(CheckUser(socket));
  TROUPE_ASSIGN_OR_RETURN(UnixPacket packet, Receive(socket));
  TROUPE_ASSIGN_OR_RETURN(RingOffer offer, DecodeOffer(packet.bytes));
  if (!EqualInConstantTime(offer.token, options_.token)) {
    return absl::UnauthenticatedError("the offer of rings does not carry this cluster's token");
  }
  fds = std::move(packet.fds);
  return offer;
}

absl::StatusOr<std::unique_ptr<RingEnd>> RingHub::TakeRings(const RingOffer& offer, std::vector<UniqueFd> fds) {
  if (fds.size() != 1) return absl::InvalidArgumentError("an offer of rings carries one descriptor");
  if (offer.ring_bytes > kRingBytesMax) return absl::InvalidArgumentError("the rings offered are too large");
  TROUPE_ASSIGN_OR_RETURN(SharedMemory memory,
                          SharedMemory::Map(std::move(fds[0]), RingEnd::MemoryBytes(offer.ring_bytes)));
  static_cast<void>(memory.TakeDescriptor());
  return RingEnd::Join(std::move(memory), offer.ring_bytes, offer.epoch);
}

void RingHub::Run(const std::shared_ptr<RingChannel>& channel) {
  {
    MutexLock lock(mutex_);
    if (stopping_) channel->End(absl::UnavailableError("the process is stopping"));
    watched_.push_back(channel);
  }
  WakeWatcher();
  absl::Status why = channel->pipe().Run();
  {
    MutexLock lock(mutex_);
    channel->ended = true;
    std::erase(watched_, channel);
    std::erase(detached_, channel);
    if (busy_ == channel) busy_ = nullptr;
    if (busy_ == nullptr) busy_now_ = nullptr;
  }
  if (absl::IsDataLoss(why) || absl::IsInvalidArgument(why)) ++options_.counters->refused_frames;
  Tell(channel->socket(), why);
  channel->socket().Shutdown();
  std::shared_ptr<EnvelopeSink> sink;
  {
    MutexLock lock(mutex_);
    sink = channel->sink();
    channel->SetSink(nullptr);
  }
  sink->Ended(why);
}

void RingHub::SetBusy(RingChannel* channel) {
  std::shared_ptr<RingChannel> before;  // Destroyed outside the lock.
  MutexLock lock(mutex_);
  before = std::exchange(busy_, channel->shared_from_this());
  busy_now_ = channel;
}

bool RingHub::Wait(const std::function<bool()>& done, Monotonic deadline) {
  std::shared_ptr<RingChannel> channel;
  {
    MutexLock lock(mutex_);
    channel = idle_on_ = busy_;
  }
  if (channel == nullptr) return false;
  bool read = false;
  for (int i = 0; i < kIdleTries && !read; ++i) {
    read = channel->pipe().ReadUntil(done, deadline, RingPipe::Turn::kAnswers);
    if (!read) std::this_thread::yield();  // The channel's own thread is about to be done.
  }
  MutexLock lock(mutex_);
  idle_on_ = nullptr;
  return read;
}

void RingHub::Wake() {
  std::shared_ptr<RingChannel> channel;
  {
    MutexLock lock(mutex_);
    channel = idle_on_;
  }
  if (channel != nullptr) channel->pipe().WakeReader();
}

absl::Status RingHub::StartThread(bool pair, std::function<void(Thread&)> work) {
  std::list<Thread> ended;  // Joined outside the lock.
  absl::Status status;
  {
    MutexLock lock(mutex_);
    for (auto it = threads_.begin(); it != threads_.end();) {
      auto next = std::next(it);
      if (it->done) ended.splice(ended.end(), threads_, it);
      it = next;
    }
    if (stopping_) {
      status = absl::UnavailableError("this process is stopping");
    } else if (threads_.size() >= 2 * options_.pairs_max + kHandshakesMax) {
      status = absl::ResourceExhaustedError(std::to_string(threads_.size()) + " threads of this process serve rings");
    } else if (pair) {
      status = CheckPairs();
    }
    if (status.ok()) status = StartWatcher();
    if (status.ok()) {
      Thread& thread = threads_.emplace_back();
      thread.pair = pair;
      auto started = troupe::StartThread([self = shared_from_this(), work = std::move(work), &thread] {
        work(thread);
        MutexLock done(self->mutex_);
        if (!self->stopping_) thread.done = true;
      });
      if (started.ok()) {
        thread.thread = *std::move(started);
      } else {
        threads_.pop_back();
        status = started.status();
      }
    }
  }
  for (Thread& thread : ended) thread.thread.join();
  return status;
}

absl::Status RingHub::CheckPairs() const {
  auto has_one = [](const Thread& thread) { return thread.pair && !thread.done; };
  const auto pairs = static_cast<size_t>(std::count_if(threads_.begin(), threads_.end(), has_one));
  if (pairs < options_.pairs_max) return absl::OkStatus();
  return absl::ResourceExhaustedError("this process has rings to " + std::to_string(pairs) + " others");
}

absl::Status RingHub::BecomePair(Thread& thread) {
  MutexLock lock(mutex_);
  if (stopping_) return absl::UnavailableError("the process is stopping");
  TROUPE_RETURN_IF_ERROR(CheckPairs());
  thread.pair = true;
  return absl::OkStatus();
}

absl::Status RingHub::StartWatcher() {
  if (watcher_.joinable()) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(auto pair, UnixSocket::Pair(UnixSocketKind::kSeqPacket));
  wake_ = std::move(pair.first);
  woken_ = std::move(pair.second);
  TROUPE_ASSIGN_OR_RETURN(watcher_, troupe::StartThread([self = shared_from_this()] { self->Watch(); }));
  return absl::OkStatus();
}

// A full socket means that it will look anyway.
void RingHub::WakeWatcher() { static_cast<void>(wake_.Send("w", {}, Monotonic())); }

void RingHub::AcceptOne(UnixListener& listener) {
  absl::StatusOr<UnixSocket> socket = listener.Accept(Monotonic());
  if (!socket.ok()) return absl::IsDeadlineExceeded(socket.status()) ? void() : PauseFor(kAcceptPause);
  auto shared = std::make_shared<UnixSocket>(*std::move(socket));
  absl::Status started = StartThread(false, [this, shared](Thread& thread) { Answer(std::move(*shared), thread); });
  if (!started.ok()) Tell(*shared, started);
}

void RingHub::Shutdown() {
  std::list<Thread> threads;
  std::thread watcher;
  std::shared_ptr<UnixListener> listener;  // Its socket file goes, outside the lock.
  Accept accept;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    threads.swap(threads_);
    watcher.swap(watcher_);
    listener.swap(listener_);
    accept.swap(accept_);
    for (const auto* channels : {&watched_, &detached_}) {
      for (const auto& channel : *channels) channel->End(absl::UnavailableError("the process is stopping"));
    }
  }
  WakeWatcher();
  auto join = [](std::thread& thread) {
    if (!thread.joinable()) return;
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  };
  join(watcher);
  for (Thread& thread : threads) join(thread.thread);
}

}  // namespace troupe
