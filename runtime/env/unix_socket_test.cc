// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/unix_socket.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/env/random.h"

namespace troupe {
namespace {

Monotonic Soon() { return MonotonicNow() + absl::Seconds(5); }

std::string TemporarySocketPath() { return "/tmp/troupe-test-" + RandomHex(6) + ".sock"; }

TEST_CASE("UnixSocket: a packet arrives whole, with its descriptor", "[unix_socket]") {
  std::string path = TemporarySocketPath();
  UnixListener listener = UnixListener::Listen(path, UnixSocketKind::kSeqPacket).value();
  UnixSocket client = UnixSocket::Connect(path, UnixSocketKind::kSeqPacket).value();
  UnixSocket server = listener.Accept(Soon()).value();

  int pipe_ends[2];
  REQUIRE(::pipe2(pipe_ends, O_CLOEXEC) == 0);
  UniqueFd read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  REQUIRE(client.Send("one", {write_end.get()}, Soon()).ok());
  REQUIRE(client.Send("two", {}, Soon()).ok());

  UnixPacket packet = server.Receive(100, Soon()).value();
  CHECK(packet.bytes == "one");
  REQUIRE(packet.fds.size() == 1);
  CHECK((::fcntl(packet.fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(::write(packet.fds[0].get(), "x", 1) == 1);
  char byte;
  REQUIRE(::read(read_end.get(), &byte, 1) == 1);
  CHECK(server.Receive(100, Soon()).value().bytes == "two");
  CHECK(server.Credentials().value().pid == ::getpid());
}

TEST_CASE("UnixSocket: a long packet, a silent peer, a full queue and a closed peer are told apart", "[unix_socket]") {
  auto [a, b] = UnixSocket::Pair(UnixSocketKind::kSeqPacket).value();
  REQUIRE(a.Send(std::string(101, 'x'), {}, Soon()).ok());
  CHECK(b.Receive(100, Soon()).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(b.Receive(100, Monotonic()).status().code() == absl::StatusCode::kDeadlineExceeded);
  absl::Status full;
  while (full.ok()) full = a.Send(std::string(10000, 'x'), {}, MonotonicNow() + absl::Milliseconds(5));
  CHECK(full.code() == absl::StatusCode::kDeadlineExceeded);
  b = UnixSocket();
  CHECK(a.Send("x", {}, Soon()).code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("UnixListener: a served path is refused, a stale one is replaced, the file goes with the listener",
          "[unix_socket]") {
  std::string path = TemporarySocketPath();
  {
    UnixListener first = UnixListener::Listen(path, UnixSocketKind::kStream).value();
    CHECK(UnixListener::Listen(path, UnixSocketKind::kStream).status().code() == absl::StatusCode::kAlreadyExists);
  }
  CHECK_FALSE(FileExists(path));
  REQUIRE(WriteFileAtomic(path, "").ok());  // What a killed process leaves: a name that nobody serves.
  CHECK(UnixListener::Listen(path, UnixSocketKind::kStream).ok());
  absl::Status too_long = UnixListener::Listen("/tmp/" + std::string(110, 'x'), UnixSocketKind::kStream).status();
  CHECK(too_long.code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("UnixListener: Shutdown wakes a waiting Accept", "[unix_socket]") {
  UnixListener listener = UnixListener::Listen(TemporarySocketPath(), UnixSocketKind::kStream).value();
  absl::Status status;
  std::thread waiter([&] { status = listener.Accept(Soon()).status(); });
  PauseFor(absl::Milliseconds(20));
  listener.Shutdown();
  waiter.join();
  CHECK(status.code() == absl::StatusCode::kCancelled);
}

TEST_CASE("Random: bytes have the length asked for and differ", "[random]") {
  CHECK(RandomBytes(33).size() == 33);
  CHECK(RandomHex(16).size() == 32);
  CHECK(RandomHex(16) != RandomHex(16));
}

}  // namespace
}  // namespace troupe
