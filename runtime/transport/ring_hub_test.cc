// SPDX-License-Identifier: Apache-2.0
// Rings between two hubs: who is let in, what each hears of the other's end, and what a process that lies can do.
#include "runtime/transport/ring_hub.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <optional>

#include "runtime/actor/future.h"
#include "runtime/env/clock.h"
#include "runtime/env/random.h"
#include "runtime/env/testing/no_threads.h"
#include "runtime/transport/ring_handshake.h"
#include "runtime/transport/testing/cut_proxy.h"

namespace troupe {
namespace {

const std::string kToken(64, 'a');
constexpr absl::Duration kLimit = absl::Seconds(20);

RingHubOptions Options(const std::string& name, const std::string& token = kToken) {
  RingHubOptions options;
  options.process_name = name;
  options.token = token;
  options.ring_bytes = kRingBytesMin;
  return options;
}

Envelope Item(uint64_t id, std::string bytes) {
  Envelope envelope;
  envelope.kind = Envelope::Kind::kItem;
  envelope.call_id = id;
  envelope.bytes = std::move(bytes);
  return envelope;
}

// Answers each item with the same, if it has a channel to do that.
struct Sink : EnvelopeSink {
  absl::Status Take(Envelope&& envelope) override {
    ++taken;
    if (answers != nullptr) answers->SendAlways(std::move(envelope));
    return absl::OkStatus();
  }
  void Ended(const absl::Status& why) override {
    MutexLock lock(mutex);
    ended = why;
    changed.NotifyAll();
  }
  absl::Status AwaitEnd() {
    MutexLock lock(mutex);
    changed.WaitUntil(lock, MonotonicNow() + kLimit, [this] { return ended.has_value(); });
    return ended.value_or(absl::DeadlineExceededError("it did not end"));
  }
  bool AwaitTaken(int count) {
    for (Monotonic end = MonotonicNow() + kLimit; taken < count && MonotonicNow() < end;) {
      PauseFor(absl::Milliseconds(1));
    }
    return taken >= count;
  }

  std::shared_ptr<FrameChannel> answers;
  std::atomic<int> taken{0};
  Mutex mutex;
  ConditionVariable changed;
  std::optional<absl::Status> ended;
};

absl::StatusOr<std::shared_ptr<FrameChannel>> Dial(RingHub& hub, const std::string& path, std::shared_ptr<Sink> sink) {
  auto dialed = std::make_shared<Promise<std::shared_ptr<FrameChannel>>>();
  auto channel = dialed->TakeFuture();
  hub.Dial(path, std::move(sink), [dialed](auto result) { dialed->Set(std::move(result)); });
  return channel.Get(MonotonicNow() + kLimit);
}

struct Server {
  explicit Server(RingHubOptions options = Options("server"))
      : counters(options.counters), hub(RingHub::Create(std::move(options))) {
    absl::Status serves = hub->Serve(path, [this](std::shared_ptr<FrameChannel> channel, const std::string&) {
      sink = std::make_shared<Sink>();
      sink->answers = std::move(channel);
      return sink;
    });
    if (!serves.ok()) ::abort();
  }
  ~Server() { hub->Shutdown(); }
  std::string path = "/tmp/ring-hub-test-" + RandomHex(6) + ".ring";
  std::shared_ptr<TransportCounters> counters;
  std::shared_ptr<RingHub> hub;
  std::shared_ptr<Sink> sink;  // Of the last channel.
};

TEST_CASE("RingHub: envelopes go both ways, and each side hears why the other ended", "[ring]") {
  Server server;
  auto hub = RingHub::Create(Options("client"));
  auto sink = std::make_shared<Sink>();
  auto channel = Dial(*hub, server.path, sink).value();
  for (uint64_t i = 0; i < 1000; ++i) REQUIRE(channel->Send(Item(i, std::string(i, 'x'))).ok());
  CHECK(sink->AwaitTaken(1000));
  channel->End(absl::CancelledError("not wanted any more"));
  CHECK(server.sink->AwaitEnd() == absl::CancelledError("not wanted any more"));
  CHECK(sink->AwaitEnd() == absl::CancelledError("not wanted any more"));
  CHECK(absl::IsUnavailable(channel->Send(Item(1, ""))));

  auto second = std::make_shared<Sink>();
  REQUIRE(Dial(*hub, server.path, second).ok());
  server.hub->Shutdown();
  CHECK(second->AwaitEnd() == absl::UnavailableError("the process is stopping"));
  CHECK_FALSE(Dial(*hub, server.path, std::make_shared<Sink>()).ok());
  hub->Shutdown();
  CHECK(absl::IsUnavailable(Dial(*hub, server.path, std::make_shared<Sink>()).status()));
}

TEST_CASE("RingHub: a wrong token, or more pairs than there may be, are told the dialer", "[ring]") {
  RingHubOptions few = Options("server");
  few.pairs_max = 2;
  Server server(few);
  auto stranger = RingHub::Create(Options("stranger", std::string(64, 'b')));
  CHECK(Dial(*stranger, server.path, std::make_shared<Sink>()).status().code() == absl::StatusCode::kUnauthenticated);
  CHECK(server.hub->refused() == 1);
  auto hub = RingHub::Create(Options("client"));
  std::vector<std::shared_ptr<FrameChannel>> channels;
  absl::Status last;
  for (int i = 0; i < 3 && last.ok(); ++i) {
    auto channel = Dial(*hub, server.path, std::make_shared<Sink>());
    last = channel.status();
    if (channel.ok()) channels.push_back(*channel);
  }
  CHECK(channels.size() == 2);
  CHECK(absl::IsResourceExhausted(last));
  hub->Shutdown();
  stranger->Shutdown();
}

TEST_CASE("RingHub: a process that is killed is noticed at once, and what it wrote before is taken", "[ring]") {
  const std::string path = "/tmp/ring-hub-test-" + RandomHex(6) + ".ring";
  pid_t child = ::fork();
  if (child == 0) {
    auto hub = RingHub::Create(Options("killed"));
    auto served = hub->Serve(path, [](std::shared_ptr<FrameChannel> channel, const std::string&) {
      auto sink = std::make_shared<Sink>();
      for (uint64_t i = 0; i < 50; ++i) channel->SendAlways(Item(i, "before"));
      sink->answers = std::move(channel);
      return sink;
    });
    while (served.ok()) ::pause();
    ::_exit(1);
  }
  auto hub = RingHub::Create(Options("client"));
  auto sink = std::make_shared<Sink>();
  absl::StatusOr<std::shared_ptr<FrameChannel>> channel = absl::UnavailableError("not yet");
  for (Monotonic end = MonotonicNow() + kLimit; !channel.ok() && MonotonicNow() < end;) {
    channel = Dial(*hub, path, sink);
    if (!channel.ok()) PauseFor(absl::Milliseconds(5));
  }
  REQUIRE(channel.ok());
  REQUIRE(sink->AwaitTaken(50));
  ::kill(child, SIGKILL);
  const Monotonic killed = MonotonicNow();
  CHECK(absl::IsUnavailable(sink->AwaitEnd()));
  CHECK(MonotonicNow() - killed < absl::Seconds(2));
  ::waitpid(child, nullptr, 0);
  ::unlink(path.c_str());
  hub->Shutdown();
}

// What the hub says next; or that it says nothing.
absl::Status Heard(UnixSocket& socket) {
  absl::StatusOr<UnixPacket> packet = socket.Receive(kRingPacketBytesMax, MonotonicNow() + kLimit);
  return packet.ok() ? DecodeRingStatus(packet->bytes) : packet.status();
}

// Sends an offer by hand; what the hub answers.
absl::Status Offered(const Server& server, const std::string& bytes, const std::vector<int>& fds) {
  UnixSocket socket = UnixSocket::Connect(server.path, UnixSocketKind::kSeqPacket).value();
  absl::Status sent = socket.Send(bytes, fds, MonotonicNow() + kLimit);  // It may be refused before.
  absl::Status heard = Heard(socket);
  return sent.ok() ? heard : sent;
}
// The same, where threads of the hub may just be ending, without which it takes no more.
absl::Status OfferedInTheEnd(const Server& server, const std::string& bytes) {
  absl::Status answer;
  for (const Monotonic limit = MonotonicNow() + kLimit; MonotonicNow() < limit; PauseFor(absl::Milliseconds(1))) {
    answer = Offered(server, bytes, {});
    if (absl::IsAborted(answer) || absl::IsUnauthenticated(answer)) break;
  }
  return answer;
}

TEST_CASE("RingHub: an offer that cannot be is refused with what is wrong, and others are served", "[ring]") {
  Server server;
  RingOffer offer;
  offer.ring_bytes = kRingBytesMin;
  offer.epoch = 7;
  offer.token = kToken;
  const std::string right = EncodeOffer(offer);
  const size_t bytes = RingEnd::MemoryBytes(kRingBytesMin);
  UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), static_cast<off_t>(bytes)) == 0);
  SharedMemory memory = SharedMemory::Create("empty", bytes).value();

  auto code = [&](const std::string& packet, std::vector<int> fds) { return Offered(server, packet, fds).code(); };
  CHECK(code("hello", {memory.fd()}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(right.substr(0, right.size() - 1), {memory.fd()}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(right, {}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(right, {memory.fd(), memory.fd()}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(right, {loose.get()}) == absl::StatusCode::kInvalidArgument);  // Its maker could shrink it.
  CHECK(code(right, {memory.fd()}) == absl::StatusCode::kInvalidArgument);  // Nothing stands in it.
  RingOffer other = offer;
  other.version = 99;
  CHECK(code(EncodeOffer(other), {memory.fd()}) == absl::StatusCode::kFailedPrecondition);
  for (uint64_t wrong : {uint64_t{0}, uint64_t{5000}, uint64_t{1} << 50, ~uint64_t{0}}) {
    other = offer;
    other.ring_bytes = wrong;
    CHECK(code(EncodeOffer(other), {memory.fd()}) == absl::StatusCode::kInvalidArgument);
  }
  CHECK(server.hub->refused() == 11);
  auto hub = RingHub::Create(Options("client"));
  auto sink = std::make_shared<Sink>();
  auto channel = Dial(*hub, server.path, sink);
  REQUIRE(channel.ok());
  REQUIRE((*channel)->Send(Item(1, "x")).ok());
  CHECK(sink->AwaitTaken(1));
  hub->Shutdown();
}

TEST_CASE("RingHub: rings go on when the socket beside them breaks, and those of another epoch are refused", "[ring]") {
  RingHubOptions one = Options("server");
  one.pairs_max = 1;  // Who connects again is no second pair.
  Server server(one);
  const std::string path = "/tmp/ring-hub-test-" + RandomHex(6) + ".ring";
  auto proxy = std::make_unique<testing::CutProxy>(path, server.path, UnixSocketKind::kSeqPacket);
  one.process_name = "client";
  auto hub = RingHub::Create(one);
  auto sink = std::make_shared<Sink>();
  auto channel = Dial(*hub, path, sink).value();
  int sent = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) REQUIRE(channel->Send(Item(static_cast<uint64_t>(++sent), "x")).ok());
    proxy->Cut();
    for (int i = 0; i < 50; ++i) REQUIRE(channel->Send(Item(static_cast<uint64_t>(++sent), "x")).ok());
    REQUIRE(sink->AwaitTaken(sent));
  }
  CHECK(sink->taken == sent);
  CHECK(server.sink->taken == sent);

  RingOffer stale;
  stale.epoch = 7;
  stale.token = kToken;
  stale.resumes = true;
  CHECK(OfferedInTheEnd(server, EncodeOffer(stale)).code() == absl::StatusCode::kAborted);
  CHECK(server.counters->refused_sessions == 1);
  stale.token = std::string(64, 'b');
  CHECK(OfferedInTheEnd(server, EncodeOffer(stale)).code() == absl::StatusCode::kUnauthenticated);

  // Nobody listens any more: the other process is gone.
  proxy = nullptr;
  CHECK(absl::IsUnavailable(sink->AwaitEnd()));
  hub->Shutdown();
}

TEST_CASE("RingHub: what a system without more threads refuses is told, and served later", "[ring]") {
  RingHubOptions one = Options("server");
  one.pairs_max = 1;
  auto serves = RingHub::Create(one);
  const std::string path = "/tmp/ring-hub-test-" + RandomHex(6) + ".ring";
  auto sink = std::make_shared<Sink>();
  auto accept = [&sink](std::shared_ptr<FrameChannel> channel, const std::string&) {
    sink->answers = std::move(channel);
    return sink;
  };
  auto none = std::make_unique<testing::NoThreads>();
  absl::Status refused = serves->Serve(path, accept);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(std::string(refused.message()).find("ulimit") != std::string::npos);
  none = nullptr;
  REQUIRE(serves->Serve(path, accept).ok());

  one.process_name = "client";
  auto hub = RingHub::Create(one);
  const std::string proxied = path + "-proxy";
  testing::CutProxy proxy(proxied, path, UnixSocketKind::kSeqPacket);
  none = std::make_unique<testing::NoThreads>();
  CHECK(absl::IsResourceExhausted(Dial(*hub, proxied, std::make_shared<Sink>()).status()));
  none = nullptr;
  auto dialer = std::make_shared<Sink>();
  auto channel = Dial(*hub, proxied, dialer).value();
  REQUIRE(channel->Send(Item(1, "x")).ok());
  REQUIRE(dialer->AwaitTaken(1));
  none = std::make_unique<testing::NoThreads>();
  proxy.Cut();
  absl::Status why = dialer->AwaitEnd();
  none = nullptr;
  CHECK(absl::IsUnavailable(why));
  CHECK(std::string(why.message()).find("ulimit") != std::string::npos);
  hub->Shutdown();
  serves->Shutdown();
}

TEST_CASE("RingHub: who dialed and does not come back is waited for, no longer than the timeout", "[ring]") {
  RingHubOptions options = Options("server");
  options.session_timeout = absl::Milliseconds(50);
  Server server(options);
  const std::string path = "/tmp/ring-hub-test-" + RandomHex(6) + ".ring";
  auto proxy = std::make_unique<testing::CutProxy>(path, server.path, UnixSocketKind::kSeqPacket);
  auto hub = RingHub::Create(Options("client"));
  auto sink = std::make_shared<Sink>();
  REQUIRE(Dial(*hub, path, sink).ok());
  proxy = nullptr;
  CHECK(absl::IsUnavailable(server.sink->AwaitEnd()));
  hub->Shutdown();
}

TEST_CASE("RingHub: a frame that was damaged ends the pair with the reason on both sides, and is counted", "[ring]") {
  Server server;
  RingOffer offer;
  offer.ring_bytes = kRingBytesMin;
  offer.epoch = 7;
  offer.token = kToken;
  SharedMemory memory = SharedMemory::Create("damaged", RingEnd::MemoryBytes(kRingBytesMin)).value();
  UniqueFd fd = memory.TakeDescriptor();
  char* raw = reinterpret_cast<char*>(memory.data());
  auto end = RingEnd::Create(std::move(memory), kRingBytesMin, offer.epoch);
  UnixSocket socket = UnixSocket::Connect(server.path, UnixSocketKind::kSeqPacket).value();
  REQUIRE(end->Write(std::string("\x03\0\0\0abc", 7)).value());
  raw[4096 + kRingFrameHeaderBytes + 5] ^= 1;
  REQUIRE(socket.Send(EncodeOffer(offer), {fd.get()}, MonotonicNow() + kLimit).ok());
  REQUIRE(Heard(socket).ok());
  absl::Status farewell = Heard(socket);
  REQUIRE(farewell.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(farewell.message()).find("checksum") != std::string::npos);
  CHECK(server.sink->AwaitEnd().code() == absl::StatusCode::kDataLoss);
  CHECK(server.hub->refused() == 1);
}

}  // namespace
}  // namespace troupe
