// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/worker_process.h"

#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "runtime/env/file.h"

namespace troupe::keeper {
namespace {

// The log of a worker that ran on a node without control groups.
std::string LogWithLimit(int64_t memory_bytes_max) {
  std::string folder = *MakeTemporaryDirectory("worker-process-test");
  v1::KeeperSpawn spawn;
  spawn.add_argv("/bin/true");
  spawn.set_log_path(folder + "/log");
  spawn.set_memory_bytes_max(memory_bytes_max);
  auto worker = WorkerProcess::Start(spawn, folder, nullptr);
  REQUIRE(worker.ok());
  int status = 0;
  REQUIRE(::waitpid((*worker)->pid(), &status, 0) == (*worker)->pid());
  worker->reset();
  std::string log = FileExists(folder + "/log") ? *ReadFile(folder + "/log", 1 << 20) : "";
  RemoveTree(folder).IgnoreError();
  return log;
}

}  // namespace

TEST_CASE("WorkerProcess: a memory limit that cannot be put in force is told in the worker's log", "[keeper]") {
  CHECK(LogWithLimit(0).empty());
  std::string log = LogWithLimit(1 << 30);
  CHECK(log.find("1073741824 bytes (resources.memory) is not in force") != std::string::npos);
  CHECK(log.find("no control groups") != std::string::npos);
}

}  // namespace troupe::keeper
