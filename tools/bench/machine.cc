// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "runtime/env/errno_status.h"
#include "tools/bench/ping_pong.h"

namespace troupe::bench {
namespace {

constexpr size_t kMessageBytes = BareRing::kMessageBytes;

absl::Status Move(ssize_t (*move)(int, char*, size_t), int socket, char* bytes) {
  for (size_t done = 0; done < kMessageBytes;) {
    ssize_t count = move(socket, bytes + done, kMessageBytes - done);
    if (count <= 0) return ErrnoStatus(errno, "a socket of the benchmark");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}
absl::Status ReadMessage(int socket, char* bytes) {
  return Move([](int fd, char* to, size_t count) { return ::read(fd, to, count); }, socket, bytes);
}
absl::Status WriteMessage(int socket, char* bytes) {
  return Move([](int fd, char* from, size_t count) { return ::write(fd, from, count); }, socket, bytes);
}

void EchoMessages(int socket) {
  char message[kMessageBytes];
  while (ReadMessage(socket, message).ok() && WriteMessage(socket, message).ok()) {
  }
}

void SetNoDelay(int socket) {
  int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

Limit SocketLimit(const std::string& name, int socket) {
  return {name, [socket](absl::Duration budget) {
            return MicrosecondsEach(budget, [socket] {
              char message[kMessageBytes] = {};
              absl::Status sent = WriteMessage(socket, message);
              return sent.ok() ? ReadMessage(socket, message) : sent;
            });
          }};
}

}  // namespace

struct Machine::Shared {
  PingPong asleep, spinning;
  BareRing ring;
};

absl::StatusOr<std::unique_ptr<Machine>> Machine::Start() {
  std::unique_ptr<Machine> machine(new Machine);
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create("bench", (sizeof(Shared) + 4095) / 4096 * 4096);
  if (!memory.ok()) return memory.status();
  machine->memory_ = *std::move(memory);
  machine->shared_ = new (machine->memory_.data()) Shared;

  int pair[2];
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return ErrnoStatus(errno, "a socket pair");
  UniqueFd other_end(pair[1]);
  machine->socket_ = UniqueFd(pair[0]);
  if (listener.get() < 0 || ::bind(listener.get(), generic, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    return ErrnoStatus(errno, "a TCP socket on 127.0.0.1");
  }
  absl::StatusOr<FarSide> far_side = FarSide::Start([&] { machine->Serve(listener.get(), other_end.get()); });
  if (!far_side.ok()) return far_side.status();
  machine->far_side_ = std::make_unique<FarSide>(*std::move(far_side));
  machine->tcp_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(machine->tcp_.get(), generic, length) != 0) return ErrnoStatus(errno, "TCP on 127.0.0.1");
  SetNoDelay(machine->tcp_.get());
  return machine;
}

void Machine::Serve(int listener, int socket) const {
  std::thread([this] { shared_->asleep.Echo(false); }).detach();
  std::thread([this] { shared_->spinning.Echo(true); }).detach();
  std::thread([this] { shared_->ring.ReadAll(); }).detach();
  std::thread([socket = ::dup(socket)] { EchoMessages(socket); }).detach();
  std::thread([listener = ::dup(listener)] {
    int connection = ::accept(listener, nullptr, nullptr);
    SetNoDelay(connection);
    EchoMessages(connection);
  }).detach();
}

Limit Machine::FutexRoundTrip() const {
  return {"futex round trip", [this](absl::Duration budget) {
            return MicrosecondsEach(budget, [this] {
              shared_->asleep.Once(/*spins=*/false, /*wakes=*/true);
              return absl::OkStatus();
            });
          }};
}

Limit Machine::SpinRoundTrip() const {
  return {"spinning round trip", [this](absl::Duration budget) {
            auto rate = RateOf(budget, [this]() -> absl::StatusOr<int64_t> {
              constexpr int64_t kBatch = 1000;  // A look at the clock takes a tenth as long as one of them.
              for (int i = 0; i < kBatch; ++i) shared_->spinning.Once(/*spins=*/true, /*wakes=*/i == 0);
              return kBatch;
            });
            if (rate.ok()) *rate = 1e6 / *rate;
            return rate;
          }};
}

Limit Machine::SocketRoundTrip() const { return SocketLimit("socketpair round trip", socket_.get()); }
Limit Machine::TcpRoundTrip() const { return SocketLimit("TCP round trip", tcp_.get()); }

Limit Machine::RingMessages() const {
  return {"64 B messages, bare ring", [this](absl::Duration budget) {
            return RateOf(budget, [this]() -> absl::StatusOr<int64_t> {
              constexpr int64_t kBatch = 10'000;
              char message[kMessageBytes] = {};
              for (int64_t i = 0; i < kBatch; ++i) shared_->ring.Write(message);
              return kBatch;
            });
          }};
}

}  // namespace troupe::bench
