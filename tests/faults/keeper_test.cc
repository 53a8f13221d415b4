// SPDX-License-Identifier: Apache-2.0
// A real keeper with real workers: what it starts, sees, kills and survives.
#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/keeper/packets.h"
#include "tests/faults/keeper_client.h"

namespace troupe::tests {
namespace {

// A worker that leaves behind: a child, a child in a session of its own, a daemon (double fork) in a session of its
// own, and one of those without any environment. Each writes its pid.
constexpr char kEscapees[] =
    "sleeper='echo $$ >> pids; exec sleep 1000';"
    "sh -c \"$sleeper\" & "
    "setsid sh -c \"$sleeper\" & "
    "(setsid sh -c \"$sleeper\" &) ; "
    "(setsid env -i /bin/sh -c \"$sleeper\" > /dev/null 2>&1 < /dev/null &) ; "
    "while [ $(cat pids | wc -l) -lt 4 ]; do sleep 0.01; done; ";

TEST_CASE("Keeper: a worker runs with exactly its environment and token, and its output is logged with times",
          "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  v1::KeeperSpawned spawned = client.Spawn(client.ShellWorker(
      1, "echo token $(cat <&3); env; pwd; ls /proc/self/fd | tr '\\n' ' '; printf 'no newline' >&2; exit 3"));
  CHECK(spawned.error().code() == 0);
  v1::ExitCause cause = client.WaitForExit(1);
  CHECK(cause.kind() == v1::ExitCause::EXITED);
  CHECK(cause.exit_code() == 3);
  CHECK(cause.peak_rss_bytes() > 0);
  CHECK(IsReadable(client.pidfds[1].get(), absl::ZeroDuration()));

  std::string log = client.Log(1);
  INFO(log);
  std::regex line("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z [OE] .*");
  std::istringstream lines(log);
  std::string environment;
  for (std::string text; std::getline(lines, text);) {
    CHECK(std::regex_match(text, line));
    environment += text.substr(30) + "\n";
  }
  CHECK(environment.find("token secret\n") != std::string::npos);
  CHECK(environment.find("TROUPE_TOKEN_FD=3\n") != std::string::npos);
  CHECK(environment.find("TROUPE_KEEPER=" + client.folder() + "\n") != std::string::npos);
  CHECK(environment.find("HOME=") == std::string::npos);
  CHECK(environment.find("secret", environment.find("token secret") + 12) == std::string::npos);
  // Standard ones, the token, and the one that `ls` opened.
  CHECK(environment.find("0 1 2 3 4 \n") != std::string::npos);
  CHECK(log.find(" E no newline\n") != std::string::npos);
}

TEST_CASE("Keeper: an exit is reported when the whole tree is gone, daemons and other sessions included",
          "[keeper][faults]") {
  bool use_cgroups = GENERATE(true, false);
  bool killed = GENERATE(true, false);
  CAPTURE(use_cgroups, killed);
  KeeperClient client({.use_cgroups = use_cgroups});
  client.Connect();
  client.Spawn(client.ShellWorker(1, kEscapees + std::string(killed ? "sleep 1000" : "exit 0")));
  client.Spawn(client.ShellWorker(2, "sleep 1000 & wait"));
  std::vector<pid_t> pids = client.WaitForPids(4);
  if (killed) client.Signal(1, SIGKILL);
  v1::ExitCause cause = client.WaitForExit(1);
  for (pid_t pid : pids) CHECK_FALSE(IsAlive(pid));
  CHECK(cause.kind() == (killed ? v1::ExitCause::STOPPED : v1::ExitCause::EXITED));
  CHECK_FALSE(IsReadable(client.pidfds[2].get(), absl::ZeroDuration()));
}

TEST_CASE("Keeper: two workers that die together do not confuse their trees", "[keeper][faults]") {
  KeeperClient client({.use_cgroups = false});
  client.Connect();
  for (uint64_t i : {1, 2}) {
    client.Spawn(client.ShellWorker(i, "(setsid sh -c 'echo $$ >> pids; exec sleep 1000' &) ; sleep 1000"));
  }
  std::vector<pid_t> pids = client.WaitForPids(2);
  ::kill(client.keeper_pid(), SIGSTOP);
  for (uint64_t i : {1, 2}) {
    v1::KeeperRequest request;
    *request.mutable_signal()->mutable_actor() = client.ShellWorker(i, "").actor();
    request.mutable_signal()->set_signal(SIGKILL);
    client.Send(request);
  }
  ::kill(client.keeper_pid(), SIGCONT);
  client.WaitForExit(1);
  client.WaitForExit(2);
  for (pid_t pid : pids) CHECK_FALSE(IsAlive(pid));
}

TEST_CASE("Keeper: a returning agent gets the workers that live and the exits of those that died meanwhile",
          "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  client.Spawn(client.ShellWorker(1, "sleep 1000"));
  client.Spawn(client.ShellWorker(2, "while [ ! -e go ]; do sleep 0.01; done; exit 7"));
  client.Disconnect();
  std::ofstream(client.folder() + "/go").put('\n');
  REQUIRE(Eventually([&] { return IsReadable(client.pidfds[2].get(), absl::ZeroDuration()); }));
  client.Connect();
  CHECK(client.workers.count(1) == 1);
  CHECK(IsAlive(client.workers[1]));
  CHECK_FALSE(IsReadable(client.pidfds[1].get(), absl::ZeroDuration()));
  CHECK(client.WaitForExit(2).exit_code() == 7);
  // Held until acknowledged, and a repeated spawn of the same life does not run it again.
  CHECK(client.Spawn(client.ShellWorker(1, "exit 0")).pid() == client.workers[1]);
  client.Acknowledge(2);
  client.Connect();
  CHECK(client.exits.empty());
  CHECK(client.workers.size() == 1);
}

TEST_CASE("Keeper: without an agent for the grace it ends everything and leaves nothing", "[keeper][faults]") {
  absl::Duration grace = GENERATE(absl::ZeroDuration(), absl::Milliseconds(300));
  CAPTURE(absl::FormatDuration(grace));
  KeeperClient client;
  client.Connect(grace);
  client.Spawn(client.ShellWorker(1, kEscapees + std::string("sleep 1000")));
  std::vector<pid_t> pids = client.WaitForPids(4);
  Monotonic start = MonotonicNow();
  client.Disconnect();
  CHECK(client.WaitForKeeperEnd() == 0);
  CHECK(MonotonicNow() - start >= grace);
  for (pid_t pid : pids) CHECK_FALSE(IsAlive(pid));
  CHECK_FALSE(FileExists(keeper::KeeperSocketPath(client.folder())));
}

TEST_CASE("Keeper: when it is killed its workers die, and the next one ends what they left", "[keeper][faults]") {
  bool use_cgroups = GENERATE(true, false);
  KeeperClient client({.use_cgroups = use_cgroups});
  client.Connect();
  client.Spawn(client.ShellWorker(1, "(setsid sh -c 'echo $$ >> pids; exec sleep 1000' &) ; exec sleep 1000"));
  std::vector<pid_t> pids = client.WaitForPids(1);
  client.KillKeeper();
  CHECK(IsReadable(client.pidfds[1].get(), KeeperClient::kPatience));
  CHECK(IsAlive(pids[0]));
  client.StartKeeper();
  client.Connect();
  CHECK_FALSE(IsAlive(pids[0]));
  CHECK(client.workers.empty());
}

TEST_CASE("Keeper: a program that is missing is a failed start with its name, held like any exit", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  v1::KeeperSpawn spawn = client.ShellWorker(1, "");
  spawn.set_argv(0, "/no/such/worker");
  CHECK(client.Spawn(spawn).error().code() == static_cast<int>(absl::StatusCode::kNotFound));
  v1::ExitCause cause = client.WaitForExit(1);
  CHECK(cause.kind() == v1::ExitCause::START_FAILED);
  CHECK(cause.status_code() == static_cast<int>(absl::StatusCode::kNotFound));  // Not worth a restart.
  CHECK(cause.text().find("/no/such/worker") != std::string::npos);
  spawn = client.ShellWorker(2, "");
  spawn.set_working_directory("/no/such/folder");
  client.Spawn(spawn);
  CHECK(client.WaitForExit(2).text().find("/no/such/folder") != std::string::npos);
  client.Connect();
  CHECK(client.exits.size() == 2);
}

TEST_CASE("Keeper: a flood of output is rotated and holds nobody up", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  v1::KeeperSpawn flood = client.ShellWorker(1, "exec yes this is one of very many lines of output");
  flood.set_log_bytes_max(1 << 20);
  flood.set_log_files_max(3);
  client.Spawn(flood);
  REQUIRE(Eventually([&] { return FileExists(client.log_path(1) + ".2"); }));
  Monotonic start = MonotonicNow();
  client.Spawn(client.ShellWorker(2, "exit 0"));
  client.WaitForExit(2);
  CHECK(MonotonicNow() - start < absl::Seconds(3));
  client.Signal(1, SIGKILL);
  client.WaitForExit(1);
  int64_t bytes = 0;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(client.folder() + "/logs")) {
    if (entry.path().filename().string().rfind("worker-1.log", 0) != 0) continue;
    ++files;
    bytes += entry.file_size();
  }
  CHECK(files <= 3);
  CHECK(bytes < 4 << 20);
}

TEST_CASE("Keeper: a full disk does not hold a worker up", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  v1::KeeperSpawn spawn = client.ShellWorker(1, "head -c 1000000 /dev/zero | tr '\\0' '\\n'; exit 5");
  spawn.set_log_path("/dev/full");
  client.Spawn(spawn);
  CHECK(client.WaitForExit(1).exit_code() == 5);
}

TEST_CASE("Keeper: one keeper a folder, one agent at a time", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  absl::StatusOr<UnixSocket> second =
      UnixSocket::Connect(keeper::KeeperSocketPath(client.folder()), UnixSocketKind::kSeqPacket);
  REQUIRE(second.ok());
  v1::KeeperEvent event;
  REQUIRE(keeper::ReceivePacket(*second, event, MonotonicNow() + KeeperClient::kPatience).ok());
  CHECK(event.done().error().message().find("another agent") != std::string::npos);

  std::string program = std::filesystem::absolute("tools/keeper/troupe_keeper");
  int status = std::system((program + " --runtime-dir " + client.folder() + " 2>/dev/null").c_str());
  CHECK(WEXITSTATUS(status) == keeper::kFolderTakenExit);
  client.Spawn(client.ShellWorker(1, "exit 0"));
  client.WaitForExit(1);
}

TEST_CASE("Keeper: a shutdown ends every worker, answers, and leaves no socket", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  for (uint64_t i = 1; i <= 20; ++i) client.Spawn(client.ShellWorker(i, "trap '' TERM; sleep 1000 & sleep 1000"));
  v1::KeeperRequest request;
  request.mutable_shutdown();
  CHECK(client.AnswerTo(client.Send(request)).done().error().code() == 0);
  CHECK(client.exits.size() == 20);
  CHECK(client.WaitForKeeperEnd() == 0);
  CHECK_FALSE(FileExists(keeper::KeeperSocketPath(client.folder())));
}

TEST_CASE("Keeper: a signal reaches the whole tree, and a worker that ends by it was stopped", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  client.Spawn(
      client.ShellWorker(1,
                         "trap 'echo parent; wait; exit 9' TERM; sh -c 'trap \"echo child; exit 0\" TERM; echo $$ "
                         ">> pids; while true; do sleep 0.02; done' & echo $$ >> pids; while true; do "
                         "sleep 0.02; done"));
  client.WaitForPids(2);
  client.Signal(1, SIGTERM);
  CHECK(client.WaitForExit(1).exit_code() == 9);
  CHECK(client.Log(1).find("O parent") != std::string::npos);
  CHECK(client.Log(1).find("O child") != std::string::npos);
}

TEST_CASE("Keeper: a worker over the limit of its control group is reported as out of memory", "[keeper][faults]") {
  KeeperClient client;
  client.Connect();
  v1::KeeperSpawn spawn = client.ShellWorker(1, "head -c 200000000 /dev/zero | tail");
  spawn.set_memory_bytes_max(32 << 20);
  client.Spawn(spawn);
  v1::ExitCause cause = client.WaitForExit(1);
  INFO(cause.text());
  if (cause.kind() == v1::ExitCause::EXITED && cause.exit_code() == 0) {
    WARN("no control group with a memory limit can be made here");
    return;
  }
  CHECK(cause.kind() == v1::ExitCause::OUT_OF_MEMORY);
  CHECK(cause.text().find("32.0 MiB") != std::string::npos);
}

}  // namespace
}  // namespace troupe::tests
