// SPDX-License-Identifier: Apache-2.0
// A real agent, keeper and workers under a scripted head: what is killed, what goes on, what is told, what is left.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/keeper/process_table.h"
#include "runtime/rpc/security.h"
#include "tests/faults/fake_head.h"
#include "tests/faults/keeper_client.h"

namespace troupe::tests {
namespace {

ActorLife Life(uint64_t incarnation, const std::string& role = "rollout") {
  return {{JobId("job"), role, 0}, incarnation};
}

std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

// One node in a folder of its own. The destructor kills everything that carries the folder's mark.
struct Node {
  std::string folder = MakeTemporaryDirectory("troupe-node").value();
  std::string runtime_dir = folder + "/run";
  std::string output_dir = folder + "/out";
  std::string token = Token::Generate();
  FakeHead head{"unix:" + folder + "/head.sock", token};
  pid_t agent = 0;
  int agent_loss_grace_ms;

  explicit Node(int grace_ms = 60'000) : agent_loss_grace_ms(grace_ms) {
    head.Start();
    StartAgent();
  }

  ~Node() {
    if (agent != 0) Kill(agent);
    // The keeper first and gently: it ends its workers and removes its control groups.
    if (pid_t keeper = Keeper(); keeper != 0) {
      ::kill(keeper, SIGTERM);
      CHECK(Eventually([&] { return !IsAlive(keeper); }));
    }
    for (pid_t pid : Processes()) ::kill(pid, SIGKILL);
    CHECK(Eventually([&] { return Processes().empty(); }));
    static_cast<void>(RemoveTree(folder));
  }

  void StartAgent() {
    std::vector<std::string> args = {Program("tests/faults/agent_main"),
                                     "unix:" + folder + "/head.sock",
                                     runtime_dir,
                                     token,
                                     Program("tools/keeper/troupe_keeper"),
                                     Program("tests/faults/fake_worker"),
                                     std::to_string(agent_loss_grace_ms)};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    REQUIRE(::posix_spawn(&agent, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  }

  void Kill(pid_t& child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = 0;
  }

  // SIGTERM, and wait for the end.
  int StopAgent() {
    ::kill(agent, SIGTERM);
    int status = -1;
    CHECK(Eventually([&] { return ::waitpid(agent, &status, WNOHANG) == agent; }, absl::Seconds(20)));
    agent = 0;
    return status;
  }

  // Keeper, workers and what they started.
  std::vector<pid_t> Processes() const {
    std::vector<pid_t> found;
    std::ifstream pids(output_dir + "/pids");
    std::set<pid_t> written;
    for (pid_t pid; pids >> pid;) written.insert(pid);
    pid_t keeper = Keeper();
    for (const keeper::ProcessEntry& entry : keeper::ReadProcessTable()) {
      if (entry.zombie) continue;
      if (written.count(entry.pid) > 0 || entry.pid == keeper ||
          keeper::HasEnvironmentEntry(entry.pid, "TROUPE_KEEPER=" + runtime_dir)) {
        found.push_back(entry.pid);
      }
    }
    return found;
  }

  // 0 when there is none.
  pid_t Keeper() const {
    for (const keeper::ProcessEntry& entry : keeper::ReadProcessTable()) {
      if (entry.zombie) continue;
      std::string text = ReadFile("/proc/" + std::to_string(entry.pid) + "/cmdline", 1 << 20).value_or("");
      if (text.find("--runtime-dir") != std::string::npos && text.find(runtime_dir) != std::string::npos) {
        return entry.pid;
      }
    }
    return 0;
  }

  std::vector<pid_t> Pids() const {
    std::ifstream file(output_dir + "/pids");
    std::vector<pid_t> pids;
    for (pid_t pid; file >> pid;) pids.push_back(pid);
    return pids;
  }

  void Run(const ActorLife& actor, const std::string& behaviour = "Good",
           absl::Duration hang_timeout = absl::Seconds(30)) {
    head.StartWorker(actor, behaviour, output_dir, hang_timeout);
    head.WaitReady(actor);
  }
};

TEST_CASE("Agent: a worker is started, becomes ready, is stopped gracefully, and its output is logged",
          "[agent][faults]") {
  Node node;
  v1::RegisterNode registration = node.head.WaitRegistration(1);
  CHECK(registration.resources().devices() == 2);
  CHECK(registration.node_id() == "test-node");
  node.Run(Life(1));
  node.head.StopWorker(Life(1), absl::Seconds(10));
  v1::ExitCause cause = node.head.WaitExit(Life(1));
  CHECK(cause.kind() == v1::ExitCause::STOPPED);
  CHECK(cause.exit_code() == 0);
  absl::StatusOr<std::string> log = ReadFile(node.output_dir + "/logs/rollout-0.log", 1 << 20);
  REQUIRE(log.ok());
  CHECK(log->find(" O ready as Good\n") != std::string::npos);
  CHECK(node.head.heartbeats() > 0);
}

TEST_CASE("Agent: a worker that does not end when asked is killed after the grace", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Stubborn");
  Monotonic start = MonotonicNow();
  node.head.StopWorker(Life(1), absl::Milliseconds(500));
  CHECK(node.head.WaitExit(Life(1)).signal() == SIGKILL);
  CHECK(MonotonicNow() - start >= absl::Milliseconds(500));
}

TEST_CASE("Agent: exits tell their causes", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.head.StartWorker(Life(1, "crash"), "Crash", node.output_dir);
  v1::ExitCause crash = node.head.WaitExit(Life(1, "crash"));
  CHECK(crash.kind() == v1::ExitCause::EXITED);
  CHECK(crash.exit_code() == 7);
  node.Run(Life(1, "shot"));
  ::kill(node.Pids().back(), SIGKILL);
  v1::ExitCause shot = node.head.WaitExit(Life(1, "shot"));
  CHECK(shot.kind() == v1::ExitCause::SIGNALED);
  CHECK(shot.signal() == SIGKILL);
}

TEST_CASE("Agent: kill -9 of the agent ends no worker; each is adopted once, and exits meanwhile are told",
          "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1));
  node.Run(Life(1, "reward"));
  std::vector<pid_t> pids = node.Pids();
  pid_t keeper = node.Keeper();
  node.Kill(node.agent);
  ::kill(pids[1], SIGKILL);
  REQUIRE(Eventually([&] { return !IsAlive(pids[1]); }));
  CHECK(IsAlive(pids[0]));
  node.StartAgent();
  v1::RegisterNode again = node.head.WaitRegistration(2);
  CHECK(again.node_incarnation() == 1);
  CHECK(again.highest_term() == 1);
  CHECK(again.sequence() > node.head.WaitRegistration(1).sequence());
  REQUIRE(again.workers_size() == 1);
  CHECK(again.workers(0).pid() == pids[0]);
  CHECK(node.head.WaitExit(Life(1, "reward")).signal() == SIGKILL);
  node.head.WaitReady(Life(1));
  // The same order again starts nothing.
  node.head.StartWorker(Life(1), "Good", node.output_dir);
  node.head.StopWorker(Life(1), absl::Seconds(10));
  CHECK(node.head.WaitExit(Life(1)).exit_code() == 0);
  CHECK(node.Pids() == pids);
  CHECK(node.Keeper() == keeper);
}

TEST_CASE("Agent: kill -9 of the keeper ends its workers; they are told, and new ones run on a new keeper",
          "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Parent");
  node.Run(Life(1, "reward"));
  REQUIRE(Eventually([&] { return node.Pids().size() == 3; }));
  std::vector<pid_t> pids = node.Pids();
  pid_t keeper = node.Keeper();
  ::kill(keeper, SIGKILL);
  CHECK(node.head.WaitExit(Life(1)).kind() == v1::ExitCause::NODE_LOST);
  CHECK(node.head.WaitExit(Life(1, "reward")).kind() == v1::ExitCause::NODE_LOST);
  for (pid_t pid : pids) CHECK_FALSE(IsAlive(pid));
  node.Run(Life(2));
  CHECK(node.Keeper() != keeper);
  CHECK(node.head.registrations() == 1);
}

TEST_CASE("Agent: a keeper that is stopped is killed with its workers, and the node goes on with a new one",
          "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1));
  pid_t keeper = node.Keeper();
  ::kill(keeper, SIGSTOP);
  CHECK(node.head.WaitExit(Life(1)).kind() == v1::ExitCause::NODE_LOST);
  CHECK_FALSE(IsAlive(keeper));
  node.Run(Life(2));
  CHECK(node.Keeper() != keeper);
}

TEST_CASE("Agent: a stopped worker is killed after hang_timeout, and CONT finds no process", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Good", absl::Seconds(1));
  pid_t pid = node.Pids().back();
  ::kill(pid, SIGSTOP);
  CHECK(node.head.WaitExit(Life(1)).kind() == v1::ExitCause::HUNG);
  CHECK(::kill(pid, SIGCONT) != 0);
}

TEST_CASE("Agent: a node that was stopped as a whole takes none of its workers for hung", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Good", absl::Seconds(1));
  std::vector<pid_t> all = node.Processes();
  all.push_back(node.agent);
  for (pid_t pid : all) ::kill(pid, SIGSTOP);
  PauseFor(absl::Seconds(4));
  for (pid_t pid : all) ::kill(pid, SIGCONT);
  PauseFor(absl::Seconds(2));
  CHECK(IsAlive(node.Pids().back()));
}

TEST_CASE("Agent: workers go on without a head; its successor gets the inventory, an older one is refused",
          "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1));
  node.head.Stop();
  PauseFor(absl::Milliseconds(300));
  CHECK(IsAlive(node.Pids().back()));
  node.head.SetWelcome(7, 1);
  node.head.Start();
  v1::RegisterNode again = node.head.WaitRegistration(1);
  REQUIRE(again.workers_size() == 1);
  CHECK(again.workers(0).ready());
  CHECK(again.workers(0).endpoint() == "unix:/fake");
  node.head.Stop();
  node.head.SetWelcome(6, 1);
  node.head.Start();
  // It hangs up each time and tries again.
  node.head.WaitRegistration(2);
  CHECK(node.head.WaitRegistration(1).highest_term() == 7);
  CHECK(IsAlive(node.Pids().back()));
}

TEST_CASE("Agent: when the node's incarnation has ended its workers are killed and their exits told",
          "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Parent");
  REQUIRE(Eventually([&] { return node.Pids().size() == 2; }));
  node.head.Stop();
  node.head.SetWelcome(1, 2);
  node.head.Start();
  node.head.WaitRegistration(1);
  CHECK(node.head.WaitExit(Life(1)).kind() == v1::ExitCause::STOPPED);
  for (pid_t pid : node.Pids()) CHECK_FALSE(IsAlive(pid));
  node.Run(Life(2));
}

TEST_CASE("Agent: with agent_loss_grace 0 everything ends with the agent", "[agent][faults]") {
  Node node(0);
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Parent");
  REQUIRE(Eventually([&] { return node.Pids().size() == 2; }));
  node.Kill(node.agent);
  CHECK(Eventually([&] { return node.Processes().empty(); }));
  CHECK_FALSE(FileExists(node.runtime_dir + "/keeper.sock"));
}

TEST_CASE("Agent: after a shutdown nothing is left, and the head was told", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1), "Parent");
  node.Run(Life(1, "reward"), "Stubborn");
  CHECK(node.StopAgent() == 0);
  CHECK(node.Processes().empty());
  CHECK_FALSE(FileExists(node.runtime_dir));
  CHECK(node.head.WaitExit(Life(1)).kind() == v1::ExitCause::STOPPED);
  CHECK(node.head.WaitExit(Life(1, "reward")).kind() == v1::ExitCause::STOPPED);
}

TEST_CASE("Agent: a second agent in the same folder is refused and harms nobody", "[agent][faults]") {
  Node node;
  node.head.WaitRegistration(1);
  node.Run(Life(1));
  pid_t first = node.agent;
  node.StartAgent();
  int status = 0;
  CHECK(Eventually([&] { return ::waitpid(node.agent, &status, WNOHANG) == node.agent; }));
  CHECK(WEXITSTATUS(status) == 1);
  node.agent = first;
  node.head.StopWorker(Life(1), absl::Seconds(10));
  CHECK(node.head.WaitExit(Life(1)).exit_code() == 0);
}

}  // namespace
}  // namespace troupe::tests
