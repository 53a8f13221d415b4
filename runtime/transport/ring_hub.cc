// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ring_hub.h"

#include <unistd.h>

#include "runtime/base/check.h"
#include "runtime/base/secret.h"
#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/transport/envelope_codec.h"
#include "runtime/transport/ring_handshake.h"

namespace troupe {
namespace {

// A process that is stopped or hangs does not answer; gRPC is tried instead.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(2);
constexpr absl::Duration kStopPoll = absl::Milliseconds(20);
// Of a thread that would read while another one does.
constexpr int kIdleTries = 4;
// After an accept that failed (out of descriptors).
constexpr absl::Duration kAcceptPause = absl::Milliseconds(50);

absl::Status CheckUser(const UnixSocket& socket) {
  TROUPE_ASSIGN_OR_RETURN(PeerCredentials peer, socket.Credentials());
  if (peer.uid == ::geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError("the other process is of user " + std::to_string(peer.uid));
}

// What is there. A side that closed with something unread makes the first look an error, before what it said.
absl::StatusOr<UnixPacket> Take(UnixSocket& socket, Monotonic deadline) {
  absl::StatusOr<UnixPacket> packet = socket.Receive(kRingPacketBytesMax, deadline);
  if (packet.ok() || absl::IsDeadlineExceeded(packet.status())) return packet;
  absl::StatusOr<UnixPacket> second = socket.Receive(kRingPacketBytesMax, Monotonic());
  return second.ok() ? std::move(second) : std::move(packet);
}

void Tell(UnixSocket& socket, const absl::Status& status) {
  static_cast<void>(socket.Send(EncodeRingStatus(status), {}, Monotonic()));
}

}  // namespace

class RingChannel final : public FrameChannel,
                          private internal::Waker,
                          public std::enable_shared_from_this<RingChannel> {
 public:
  // `served_by`: the hub whose idle threads may read it; null: none.
  RingChannel(UnixSocket socket, std::unique_ptr<RingEnd> end, const RingPipeOptions& options, RingHub* served_by)
      : served_by_(served_by),
        socket_(std::move(socket)),
        pipe_(std::move(end), options, [this](std::string_view record) { return TakeRecord(record); }) {}

  absl::Status Send(Envelope&& envelope) override {
    return pipe_.Send(false, [&](std::string& out) { writer_.Write(envelope, out); });
  }
  void SendAlways(Envelope&& envelope) override {
    static_cast<void>(pipe_.Send(true, [&](std::string& out) { writer_.Write(envelope, out); }));
  }
  void End(const absl::Status& why) override { pipe_.End(why, false); }
  void WaitReading(internal::FutureBase& future, Monotonic deadline) override {
    if (!future.SetWaker(this)) return;
    pipe_.ReadUntil([&future] { return future.IsSet(); }, deadline);
    future.ClearWaker();
  }

  void SetSink(std::shared_ptr<EnvelopeSink> sink) { sink_ = std::move(sink); }
  const std::shared_ptr<EnvelopeSink>& sink() const { return sink_; }
  UnixSocket& socket() { return socket_; }
  RingPipe& pipe() { return pipe_; }

 private:
  absl::Status TakeRecord(std::string_view record) {
    absl::StatusOr<Envelope> envelope = reader_.Read(record);
    if (!envelope.ok()) return envelope.status();
    if (served_by_ != nullptr && served_by_->busy_now_.load(std::memory_order_relaxed) != this) {
      served_by_->SetBusy(this);
    }
    return envelope->kind == Envelope::Kind::kNone ? absl::OkStatus() : sink_->Take(*std::move(envelope));
  }

  void Wake() override { pipe_.WakeReader(); }

  RingHub* const served_by_;
  UnixSocket socket_;
  EnvelopeWriter writer_;               // Under the pipe's lock for writing.
  EnvelopeReader reader_;               // Of the thread that reads.
  std::shared_ptr<EnvelopeSink> sink_;  // Set before anybody reads; until the end.
  RingPipe pipe_;
};

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
  absl::Status started = StartThread([this, path, sink = std::move(sink), dialed] {
    absl::StatusOr<UnixSocket> socket = UnixSocket::Connect(path, UnixSocketKind::kSeqPacket);
    if (!socket.ok()) return dialed(socket.status());
    absl::StatusOr<std::unique_ptr<RingEnd>> end = Offer(*socket);
    if (!end.ok()) return dialed(end.status());
    auto channel = std::make_shared<RingChannel>(*std::move(socket), *std::move(end), options_.pipe, nullptr);
    channel->SetSink(sink);
    sink->Greeted();
    dialed(channel);
    Run(channel);
  });
  if (!started.ok()) dialed(started);
}

absl::StatusOr<UnixPacket> RingHub::Receive(UnixSocket& socket) {
  for (const Monotonic limit = MonotonicNow() + kHandshakeTimeout; MonotonicNow() < limit;) {
    absl::StatusOr<UnixPacket> packet = Take(socket, MonotonicNow() + kStopPoll);
    if (!absl::IsDeadlineExceeded(packet.status())) return packet;
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("this process is stopping");
  }
  return absl::DeadlineExceededError("the other process did not answer on the rings' socket");
}

absl::StatusOr<std::unique_ptr<RingEnd>> RingHub::Offer(UnixSocket& socket) {
  TROUPE_RETURN_IF_ERROR(CheckUser(socket));
  RingOffer offer;
  offer.ring_bytes = options_.ring_bytes;
  offer.epoch = RandomUint64();
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

void RingHub::Answer(UnixSocket socket) {
  absl::StatusOr<std::unique_ptr<RingEnd>> end = TakeOffer(socket);
  if (!end.ok()) {
    ++refused_;
    return Tell(socket, end.status());
  }
  RingPipeOptions pipe = options_.pipe;
  pipe.pauses = true;
  auto channel = std::make_shared<RingChannel>(std::move(socket), *std::move(end), pipe, this);
  Accept accept;
  {
    MutexLock lock(mutex_);
    accept = accept_;
  }
  std::shared_ptr<EnvelopeSink> sink = accept ? accept(channel) : nullptr;
  if (sink == nullptr) return Tell(channel->socket(), absl::UnavailableError("the process is stopping"));
  channel->SetSink(sink);
  sink->Greeted();
  Tell(channel->socket(), absl::OkStatus());
  Run(channel);
}

absl::StatusOr<std::unique_ptr<RingEnd>> RingHub::TakeOffer(UnixSocket& socket) {
  TROUPE_RETURN_IF_ERROR(CheckUser(socket));
  TROUPE_ASSIGN_OR_RETURN(UnixPacket packet, Receive(socket));
  TROUPE_ASSIGN_OR_RETURN(RingOffer offer, DecodeOffer(packet.bytes));
  if (!EqualInConstantTime(offer.token, options_.token)) {
    return absl::UnauthenticatedError("the offer of rings does not carry this cluster's token");
  }
  if (packet.fds.size() != 1) return absl::InvalidArgumentError("an offer of rings carries one descriptor");
  if (offer.ring_bytes > kRingBytesMax) return absl::InvalidArgumentError("the rings offered are too large");
  TROUPE_ASSIGN_OR_RETURN(SharedMemory memory,
                          SharedMemory::Map(std::move(packet.fds[0]), RingEnd::MemoryBytes(offer.ring_bytes)));
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
    std::erase(watched_, channel);
    if (busy_ == channel) busy_ = nullptr;
    if (busy_ == nullptr) busy_now_ = nullptr;
  }
  if (absl::IsDataLoss(why) || absl::IsInvalidArgument(why)) ++refused_;
  Tell(channel->socket(), why);
  channel->socket().Shutdown();
  std::shared_ptr<EnvelopeSink> sink = channel->sink();
  channel->SetSink(nullptr);
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
    read = channel->pipe().ReadUntil(done, deadline);
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

absl::Status RingHub::StartThread(std::function<void()> work) {
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
    } else if (threads_.size() >= options_.pairs_max) {
      status = absl::ResourceExhaustedError("this process has rings to " + std::to_string(threads_.size()) + " others");
    } else {
      status = StartWatcher();
    }
    if (status.ok()) {
      Thread& thread = threads_.emplace_back();
      thread.thread = std::thread([self = shared_from_this(), work = std::move(work), &thread] {
        work();
        MutexLock done(self->mutex_);
        if (!self->stopping_) thread.done = true;
      });
    }
  }
  for (Thread& thread : ended) thread.thread.join();
  return status;
}

absl::Status RingHub::StartWatcher() {
  if (watcher_.joinable()) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(auto pair, UnixSocket::Pair(UnixSocketKind::kSeqPacket));
  wake_ = std::move(pair.first);
  woken_ = std::move(pair.second);
  watcher_ = std::thread([self = shared_from_this()] { self->Watch(); });
  return absl::OkStatus();
}

// A full socket means that it will look anyway.
void RingHub::WakeWatcher() { static_cast<void>(wake_.Send("w", {}, Monotonic())); }

void RingHub::Watch() {
  while (true) {
    std::vector<std::shared_ptr<RingChannel>> watched;
    std::shared_ptr<UnixListener> listener;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      watched = watched_;
      listener = listener_;
    }
    std::vector<int> fds = {woken_.fd()};
    if (listener != nullptr) fds.push_back(listener->fd());
    const size_t first = fds.size();
    for (const auto& channel : watched) fds.push_back(channel->socket().fd());
    absl::StatusOr<std::vector<size_t>> ready = WaitForAny(fds, Monotonic::Infinite());
    if (!ready.ok()) {
      PauseFor(kAcceptPause);
      continue;
    }
    for (size_t at : *ready) {
      if (at == 0) {
        static_cast<void>(woken_.Receive(kRingPacketBytesMax, Monotonic()));
      } else if (at < first) {
        AcceptOne(*listener);
      } else {
        const std::shared_ptr<RingChannel>& channel = watched[at - first];
        absl::StatusOr<UnixPacket> farewell = Take(channel->socket(), Monotonic());
        absl::Status why =
            farewell.ok() ? DecodeRingStatus(farewell->bytes) : absl::UnavailableError("the other process has ended");
        if (why.ok()) why = absl::UnavailableError("the other process closed the rings");
        channel->pipe().End(why, true);
        MutexLock lock(mutex_);
        std::erase(watched_, channel);
      }
    }
  }
}

void RingHub::AcceptOne(UnixListener& listener) {
  absl::StatusOr<UnixSocket> socket = listener.Accept(Monotonic());
  if (!socket.ok()) return absl::IsDeadlineExceeded(socket.status()) ? void() : PauseFor(kAcceptPause);
  auto shared = std::make_shared<UnixSocket>(*std::move(socket));
  absl::Status started = StartThread([this, shared] { Answer(std::move(*shared)); });
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
    for (const auto& channel : watched_) channel->End(absl::UnavailableError("the process is stopping"));
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
