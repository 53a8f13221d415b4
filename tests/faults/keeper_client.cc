// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/keeper_client.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/keeper/keeper_state.h"
#include "runtime/keeper/packets.h"
#include "runtime/keeper/process_table.h"

namespace troupe::tests {
namespace {

// In the runfiles, where tests run.
constexpr char kKeeperProgram[] = "tools/keeper/troupe_keeper";

ActorLife Life(uint64_t incarnation) { return {{JobId("test"), "worker", 0}, incarnation}; }

}  // namespace

KeeperClient::KeeperClient(Options options)
    : options_(options), folder_(MakeTemporaryDirectory("troupe-keeper").value()) {
  StartKeeper();
}

KeeperClient::~KeeperClient() {
  if (keeper_ != 0) {
    ::kill(keeper_, SIGTERM);
    WaitForKeeperEnd();
  }
  static_cast<void>(RemoveTree(folder_));
}

void KeeperClient::StartKeeper() {
  std::string program = std::filesystem::absolute(kKeeperProgram);
  std::vector<std::string> args = {program, "--runtime-dir", folder_};
  if (!options_.use_cgroups) args.push_back("--no-cgroups");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  REQUIRE(::posix_spawn(&keeper_, program.c_str(), nullptr, nullptr, argv.data(), environ) == 0);
}

void KeeperClient::Connect(absl::Duration agent_loss_grace) {
  Disconnect();
  pidfds.clear();
  workers.clear();
  exits.clear();
  REQUIRE(Eventually([&] {
    absl::StatusOr<UnixSocket> socket =
        UnixSocket::Connect(keeper::KeeperSocketPath(folder_), UnixSocketKind::kSeqPacket);
    if (socket.ok()) socket_ = *std::move(socket);
    return socket.ok();
  }));
  v1::KeeperRequest hello;
  hello.mutable_hello()->set_agent_loss_grace_ms(absl::ToInt64Milliseconds(agent_loss_grace));
  hello.mutable_hello()->set_protocol_version(keeper::kKeeperProtocolVersion);
  uint64_t id = Send(hello);
  for (bool more = true; more;) {
    v1::KeeperEvent event = AnswerTo(id);
    INFO(event.DebugString());
    REQUIRE(event.has_inventory());
    more = event.inventory().more();
  }
}

v1::KeeperSpawn KeeperClient::ShellWorker(uint64_t incarnation, const std::string& script) const {
  v1::KeeperSpawn spawn;
  *spawn.mutable_actor() = Life(incarnation).ToProto();
  for (const char* arg : {"/bin/sh", "-c"}) spawn.add_argv(arg);
  spawn.add_argv(script);
  spawn.add_environment("PATH=/usr/bin:/bin");
  spawn.add_environment("TROUPE_WORKER=" + Life(incarnation).ToString());
  spawn.set_working_directory(folder_);
  spawn.set_log_path(log_path(incarnation));
  spawn.set_token("secret");
  return spawn;
}

v1::KeeperSpawned KeeperClient::Spawn(const v1::KeeperSpawn& spawn) {
  v1::KeeperRequest request;
  *request.mutable_spawn() = spawn;
  v1::KeeperEvent event = AnswerTo(Send(request));
  INFO(event.DebugString());
  REQUIRE(event.has_spawned());
  return event.spawned();
}

void KeeperClient::Signal(uint64_t incarnation, int signal) {
  v1::KeeperRequest request;
  *request.mutable_signal()->mutable_actor() = Life(incarnation).ToProto();
  request.mutable_signal()->set_signal(signal);
  CHECK(AnswerTo(Send(request)).done().error().code() == 0);
}

void KeeperClient::Acknowledge(uint64_t incarnation) {
  v1::KeeperRequest request;
  *request.mutable_acknowledge_exit()->mutable_actor() = Life(incarnation).ToProto();
  CHECK(AnswerTo(Send(request)).done().error().code() == 0);
}

uint64_t KeeperClient::Send(v1::KeeperRequest request) {
  request.set_request_id(next_request_++);
  absl::Status status = keeper::SendPacket(socket_, request, {}, MonotonicNow() + kPatience);
  INFO(StatusText(status));
  REQUIRE(status.ok());
  return request.request_id();
}

v1::KeeperEvent KeeperClient::AnswerTo(uint64_t request_id) {
  Monotonic deadline = MonotonicNow() + kPatience;
  while (answers_[request_id].empty()) REQUIRE(ReceiveOne(deadline));
  v1::KeeperEvent event = std::move(answers_[request_id].front());
  answers_[request_id].pop_front();
  return event;
}

v1::ExitCause KeeperClient::WaitForExit(uint64_t incarnation) {
  Monotonic deadline = MonotonicNow() + kPatience;
  while (exits.count(incarnation) == 0) REQUIRE(ReceiveOne(deadline));
  return exits[incarnation];
}

bool KeeperClient::ExitComesWithin(uint64_t incarnation, absl::Duration time) {
  Monotonic deadline = MonotonicNow() + time;
  while (exits.count(incarnation) == 0 && ReceiveOne(deadline)) {
  }
  return exits.count(incarnation) > 0;
}

bool KeeperClient::ReceiveOne(Monotonic deadline) {
  v1::KeeperEvent event;
  absl::StatusOr<std::vector<UniqueFd>> fds = keeper::ReceivePacket(socket_, event, deadline);
  if (!fds.ok()) return false;
  if (event.has_inventory()) {
    REQUIRE(fds->size() == static_cast<size_t>(event.inventory().workers_size()));
    for (int i = 0; i < event.inventory().workers_size(); ++i) {
      const v1::KeeperWorker& worker = event.inventory().workers(i);
      workers[worker.actor().incarnation()] = worker.pid();
      pidfds[worker.actor().incarnation()] = std::move((*fds)[i]);
    }
    for (const v1::KeeperExited& exited : event.inventory().exits())
      exits[exited.actor().incarnation()] = exited.cause();
  }
  if (event.has_spawned() && !fds->empty()) pidfds[event.spawned().actor().incarnation()] = std::move((*fds)[0]);
  if (event.has_exited()) exits[event.exited().actor().incarnation()] = event.exited().cause();
  if (event.request_id() != 0) answers_[event.request_id()].push_back(std::move(event));
  return true;
}

void KeeperClient::KillKeeper() {
  ::kill(keeper_, SIGKILL);
  WaitForKeeperEnd();
}

int KeeperClient::WaitForKeeperEnd() {
  int status = 0;
  bool ended = Eventually([&] { return ::waitpid(keeper_, &status, WNOHANG) == keeper_; });
  if (!ended) {
    ::kill(keeper_, SIGKILL);
    ::waitpid(keeper_, &status, 0);
  }
  CHECK(ended);
  keeper_ = 0;
  return status;
}

std::string KeeperClient::log_path(uint64_t incarnation) const {
  return folder_ + "/logs/worker-" + std::to_string(incarnation) + ".log";
}

std::string KeeperClient::Log(uint64_t incarnation) const {
  std::ifstream file(log_path(incarnation));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<pid_t> KeeperClient::WaitForPids(size_t count) const {
  std::vector<pid_t> pids;
  REQUIRE(Eventually([&] {
    pids.clear();
    std::ifstream file(folder_ + "/pids");
    for (pid_t pid; file >> pid;) pids.push_back(pid);
    return pids.size() >= count;
  }));
  return pids;
}

bool IsAlive(pid_t pid) {
  for (const keeper::ProcessEntry& entry : keeper::ReadProcessTable()) {
    if (entry.pid == pid) return !entry.zombie;
  }
  return false;
}

bool IsReadable(int fd, absl::Duration within) {
  pollfd poll_fd{fd, POLLIN, 0};
  return ::poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(within))) == 1;
}

}  // namespace troupe::tests
