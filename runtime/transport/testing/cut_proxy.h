// SPDX-License-Identifier: Apache-2.0
// CutProxy: a Unix socket that passes everything on to another one (descriptors too), until the test cuts what is
// connected. For tests of what a broken connection does.
//
//   CutProxy proxy("/tmp/p.sock", "/tmp/server.sock", UnixSocketKind::kStream);   // clients dial /tmp/p.sock
//   proxy.Cut();
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/env/clock.h"
#include "runtime/env/unix_socket.h"

namespace troupe::testing {

// One thread of its own does everything; Cut and the destructor are for one other thread at a time.
class CutProxy {
 public:
  // Listens when it returns. `target` need not be there yet: who connects before it is, is hung up on. The test fails
  // where `path` cannot be listened on.
  CutProxy(const std::string& path, std::string target, UnixSocketKind kind)
      : listener_(UnixListener::Listen(path, kind).value()), target_(std::move(target)), kind_(kind) {
    thread_ = std::thread([this] { Run(); });
  }
  // Breaks every connection and removes the socket.
  ~CutProxy() {
    stopping_ = true;
    thread_.join();
  }

  // Every connection breaks, before it returns; what is on its way is lost. Later ones are passed on, unless it stalls:
  // then they get no answer.
  void Cut() {
    cut_ = true;
    while (cut_) std::this_thread::yield();
  }
  void Stall(bool stalls) { stalls_ = stalls; }

 private:
  static constexpr absl::Duration kPoll = absl::Milliseconds(1);  // How late a cut may be.
  static constexpr absl::Duration kSendTimeout = absl::Seconds(5);
  struct Way {
    std::shared_ptr<UnixSocket> from, to;
  };

  void Run() {
    while (!stopping_) {
      std::vector<int> fds = {listener_.fd()};
      for (const auto& [fd, way] : ways_) fds.push_back(fd);
      auto ready = WaitForAny(fds, MonotonicNow() + kPoll);
      if (cut_) {
        ways_.clear();
        cut_ = false;
        continue;
      }
      if (!ready.ok()) continue;
      if (stalls_) PauseFor(kPoll);
      for (size_t at : *ready) at == 0 ? Accept() : Pass(fds[at]);
    }
  }

  void Accept() {
    if (stalls_) return;
    auto accepted = listener_.Accept(Monotonic());
    auto connected = UnixSocket::Connect(target_, kind_);
    if (!accepted.ok() || !connected.ok()) return;
    auto client = std::make_shared<UnixSocket>(*std::move(accepted));
    auto server = std::make_shared<UnixSocket>(*std::move(connected));
    ways_[client->fd()] = {client, server};
    ways_[server->fd()] = {server, client};
  }

  void Pass(int fd) {
    auto found = ways_.find(fd);
    if (found == ways_.end()) return;
    Way way = found->second;
    auto packet = way.from->Receive(64 << 10, Monotonic());
    if (packet.ok()) {
      std::vector<int> descriptors;
      for (const UniqueFd& descriptor : packet->fds) descriptors.push_back(descriptor.get());
      if (way.to->Send(packet->bytes, descriptors, MonotonicNow() + kSendTimeout).ok()) return;
    } else if (absl::IsDeadlineExceeded(packet.status())) {
      return;
    }
    ways_.erase(way.from->fd());
    ways_.erase(way.to->fd());
  }

  UnixListener listener_;
  const std::string target_;
  const UnixSocketKind kind_;
  std::map<int, Way> ways_;  // Both ways, by the descriptor that is read. Of the thread.
  std::atomic<bool> cut_{false};
  std::atomic<bool> stalls_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace troupe::testing
