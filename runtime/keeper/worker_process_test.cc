// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/env/cpu_list.h"
#include "runtime/env/file.h"
#include "runtime/env/testing/eventually.h"
#include "runtime/keeper/spawn.h"
#include "runtime/keeper/worker_cgroup.h"

namespace troupe::keeper {
namespace {

// The log of a worker that ran on a node without control groups.
std::string LogWithLimit(int64_t memory_bytes_max, const std::string& cpus = "", int cpu_weight = 0) {
  std::string folder = *MakeTemporaryDirectory("worker-process-test");
  v1::KeeperSpawn spawn;
  spawn.add_argv("/bin/true");
  spawn.set_log_path(folder + "/log");
  spawn.set_memory_bytes_max(memory_bytes_max);
  spawn.set_cpus(cpus);
  spawn.set_cpu_weight(cpu_weight);
  auto worker = WorkerProcess::Start(spawn, folder, nullptr);
  REQUIRE(worker.ok());
  int status = 0;
  REQUIRE(::waitpid((*worker)->pid(), &status, 0) == (*worker)->pid());
  worker->reset();
  std::string log = FileExists(folder + "/log") ? *ReadFile(folder + "/log", 1 << 20) : "";
  RemoveTree(folder).IgnoreError();
  return log;
}

// The groups of a process that was started in that of `group`, as it saw them itself.
std::string GroupsSeenIn(const WorkerCgroup& group) {
  absl::StatusOr<StartedProcess> process =
      StartProcess({.argv = {"/bin/sh", "-c", "cat /proc/self/cgroup; exec sleep 60"},
                    .cgroup = group.folder(),
                    .cgroup_procs_files = group.procs_files()});
  REQUIRE(process.ok());
  std::string seen;
  CHECK(Eventually([&] {
    char text[4096];
    ssize_t n = ::read(process->stdout_pipe.get(), text, sizeof(text));
    if (n > 0) seen.append(text, static_cast<size_t>(n));
    return seen.find("\n", seen.find("0::")) != std::string::npos;  // The last line.
  }));
  CHECK_FALSE(group.Empty());
  ::kill(process->pid, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(process->pid, &status, 0) == process->pid);
  return seen;
}

}  // namespace

TEST_CASE("WorkerProcess: a worker is born in its control group, and enters one for memory where it has a limit",
          "[keeper]") {
  auto groups = CgroupFolder::Open("troupe-worker-process-test");
  if (!groups.ok()) {
    WARN("no control groups can be made here: " << groups.status());
    return;
  }
  for (int64_t memory_bytes_max : {int64_t{0}, int64_t{64 << 20}}) {
    CAPTURE(memory_bytes_max);
    auto group = (*groups)->Create({.memory_bytes_max = memory_bytes_max});
    REQUIRE(group.ok());
    std::string seen = GroupsSeenIn(**group);
    std::string name = "/troupe-worker-process-test" + (*group)->folder().substr((*group)->folder().rfind('/'));
    CHECK(seen.find(name + "\n", seen.find("0::")) != std::string::npos);
    bool limited = (*group)->OomKills() >= 0;
    size_t memory = seen.find(":memory:");
    if (memory != std::string::npos) CHECK((seen.find(name + "\n", memory) < seen.find('\n', memory)) == limited);
    CHECK((memory_bytes_max > 0 || (*group)->procs_files().empty()));
    if (memory_bytes_max > 0) CHECK(limited == (*group)->memory_limit().ok());
    (*group)->Remove();
  }
}

TEST_CASE("StartProcess: a control group that is not there is told, and the program does not run", "[keeper]") {
  ProcessSpec spec{.argv = {"/bin/true"}, .cgroup = "/no/such/group"};
  absl::StatusOr<StartedProcess> process = StartProcess(spec);
  REQUIRE(process.ok());
  int status = 0;
  REQUIRE(::waitpid(process->pid, &status, 0) == process->pid);
  absl::Status told = ReadExecStatus(process->exec_status.get(), spec);
  CHECK(told.message().find("could not enter its control group") != absl::string_view::npos);
}

TEST_CASE("WorkerProcess: a memory limit that cannot be put in force is told in the worker's log", "[keeper]") {
  CHECK(LogWithLimit(0).empty());
  std::string log = LogWithLimit(1 << 30);
  CHECK(log.find("1073741824 bytes (resources.memory) is not in force") != std::string::npos);
  CHECK(log.find("no control groups") != std::string::npos);
}

TEST_CASE("WorkerProcess: without control groups a worker is held on its processors by its affinity, and told so",
          "[keeper]") {
  const int last = UsableCpus().back();
  absl::StatusOr<StartedProcess> process =
      StartProcess({.argv = {"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"}, .cpus = {last}});
  REQUIRE(process.ok());
  std::string seen;
  CHECK(Eventually([&] {
    char text[4096];
    ssize_t n = ::read(process->stdout_pipe.get(), text, sizeof(text));
    if (n > 0) seen.append(text, static_cast<size_t>(n));
    return seen.find('\n') != std::string::npos;
  }));
  CHECK(seen == "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
  int status = 0;
  REQUIRE(::waitpid(process->pid, &status, 0) == process->pid);
  CHECK(LogWithLimit(0, std::to_string(last)).find("nothing keeps it on its processors") != std::string::npos);
  CHECK(LogWithLimit(0, "", 200).find("weight of CPUs is not in force") != std::string::npos);
}

TEST_CASE("WorkerProcess: processors and their weight are put in force by control groups where these can be made",
          "[keeper]") {
  auto groups = CgroupFolder::Open("troupe-worker-process-cpus");
  if (!groups.ok()) {
    WARN("no control groups can be made here: " << groups.status());
    return;
  }
  const std::string last = std::to_string(UsableCpus().back());
  auto group = (*groups)->Create({.cpus = last, .cpu_weight = 300});
  REQUIRE(group.ok());
  if (!(*group)->cpu_limit().ok()) {
    WARN("no control groups of processors can be made here: " << (*group)->cpu_limit());
  } else {
    const std::string seen = GroupsSeenIn(**group);
    INFO(seen);
    // Version 1 has a group of each kind, version 2 one of all.
    const std::string name = "/troupe-worker-process-cpus" + (*group)->folder().substr((*group)->folder().rfind('/'));
    for (const char* controller : {":cpuset:", ":cpu:"}) {
      if (size_t at = seen.find(controller); at != std::string::npos && !(*group)->procs_files().empty()) {
        CHECK(seen.find(name + "\n", at) < seen.find('\n', at));
      }
    }
  }
  const std::string folder = (*group)->folder();
  (*group)->Remove();
  groups->reset();
  CHECK_FALSE(FileExists(folder));
  CHECK_FALSE(FileExists(folder.substr(0, folder.rfind('/'))));
}

}  // namespace troupe::keeper
