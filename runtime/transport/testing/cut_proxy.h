// SPDX-License-Identifier: Apache-2.0
// CutProxy: a Unix socket that passes everything on to another one, until the test cuts what is connected.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/check.h"

namespace troupe::testing {

class CutProxy {
 public:
  CutProxy(std::string path, std::string target) : path_(std::move(path)), target_(std::move(target)) {
    listener_ = Socket();
    sockaddr_un address = Address(path_);
    TROUPE_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind");
    TROUPE_CHECK(::listen(listener_, 16) == 0, "listen");
    thread_ = std::thread([this] { Run(); });
  }
  ~CutProxy() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
    ::unlink(path_.c_str());
  }

  // Every connection breaks; what is on its way is lost. Later ones are passed on.
  void Cut() {
    cut_ = true;
    while (cut_) std::this_thread::yield();
  }

 private:
  static constexpr int kPollMs = 1;  // How late a cut may be.

  static int Socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }

  void Run() {
    while (!stopping_) {
      std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
      for (const auto& [from, to] : peers_) fds.push_back({from, POLLIN, 0});
      ::poll(fds.data(), fds.size(), kPollMs);
      if (cut_) {
        CloseAll();
        cut_ = false;
        continue;
      }
      if (fds[0].revents != 0) Accept();
      for (size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents != 0 && peers_.count(fds[i].fd) > 0) Pass(fds[i].fd);
      }
    }
    CloseAll();
  }

  void Accept() {
    int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    int server = Socket();
    sockaddr_un address = Address(target_);
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      ::close(client);
      ::close(server);
      return;
    }
    peers_[client] = server;
    peers_[server] = client;
  }

  void Pass(int from) {
    char buffer[65536];
    int to = peers_[from];
    ssize_t count = ::recv(from, buffer, sizeof(buffer), 0);
    for (ssize_t sent = 0; sent < count;) {
      ssize_t written = ::send(to, buffer + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (written <= 0) break;
      sent += written;
    }
    if (count > 0) return;
    ::close(from);
    ::close(to);
    peers_.erase(from);
    peers_.erase(to);
  }

  void CloseAll() {
    for (const auto& [from, to] : peers_) ::close(from);
    peers_.clear();
  }

  const std::string path_, target_;
  int listener_ = -1;
  std::map<int, int> peers_;  // Both ways. Of the thread.
  std::atomic<bool> cut_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace troupe::testing
