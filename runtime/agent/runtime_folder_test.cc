// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/runtime_folder.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "runtime/agent/node_resources.h"
#include "runtime/agent/worker_spawn.h"
#include "runtime/env/file.h"

namespace troupe::agent {
namespace {

struct Folder {
  std::string path = MakeTemporaryDirectory("troupe-agent").value() + "/node";
  ~Folder() { static_cast<void>(RemoveTree(path.substr(0, path.rfind('/')))); }
};

v1::StartWorker Start() {
  v1::StartWorker start;
  *start.mutable_actor() = ActorLife{{JobId("job"), "rollout", 2}, 7}.ToProto();
  start.set_output_dir("/runs/x");
  start.mutable_role()->mutable_resources()->set_cpus(1.5);
  start.add_device_indices(1);
  start.add_device_indices(3);
  return start;
}

std::vector<device::FoundDevice> Devices(const std::string& kind, const std::vector<std::string>& names) {
  std::vector<device::FoundDevice> devices;
  for (const std::string& name : names) {
    devices.push_back(device::PlainDevice(kind, static_cast<int>(devices.size())));
    devices.back().visible_name = name;
  }
  return devices;
}

std::set<std::string> EnvironmentOf(const v1::KeeperSpawn& spawn) {
  return {spawn.environment().begin(), spawn.environment().end()};
}

TEST_CASE("RuntimeFolder: one agent a folder, which nobody else may enter", "[agent]") {
  Folder f;
  auto first = RuntimeFolder::Open(f.path);
  REQUIRE(first.ok());
  struct stat info {};
  REQUIRE(::stat(f.path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(absl::IsAlreadyExists(RuntimeFolder::Open(f.path).status()));
  first->reset();
  CHECK(RuntimeFolder::Open(f.path).ok());
  ::chmod(f.path.c_str(), 0777);
  CHECK(absl::IsPermissionDenied(RuntimeFolder::Open(f.path).status()));
}

TEST_CASE("RuntimeFolder: a folder above it in /tmp that others may write to is refused", "[agent]") {
  Folder f;
  ::mkdir(f.path.c_str(), 0700);
  CHECK(RuntimeFolder::Open(f.path + "/node").ok());
  ::chmod(f.path.c_str(), 0777);
  absl::Status status = RuntimeFolder::Open(f.path + "/node").status();
  CHECK(absl::IsPermissionDenied(status));
  CHECK(std::string(status.message()).find("what is in " + f.path) != std::string::npos);
}

TEST_CASE("RuntimeFolder: a path that is too long for its sockets is refused with a sentence", "[agent]") {
  absl::Status status = RuntimeFolder::Open("/tmp/" + std::string(100, 'x')).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find("shorter") != absl::string_view::npos);
  CHECK(absl::IsInvalidArgument(RuntimeFolder::Open("relative").status()));
}

TEST_CASE("RuntimeFolder: identity and assignments outlive the agent", "[agent]") {
  Folder f;
  v1::AgentIdentity identity;
  identity.set_node_id("n");
  identity.set_highest_term(3);
  v1::AssignedWorker assigned;
  *assigned.mutable_start() = Start();
  assigned.mutable_start()->mutable_actor()->mutable_id()->set_role("../odd role");
  {
    auto folder = RuntimeFolder::Open(f.path).value();
    CHECK(folder->LoadIdentity()->node_id().empty());
    REQUIRE(folder->KeepIdentity(identity).ok());
    REQUIRE(folder->KeepAssignment(assigned).ok());
  }
  auto folder = RuntimeFolder::Open(f.path).value();
  CHECK(folder->LoadIdentity()->highest_term() == 3);
  REQUIRE(folder->LoadAssignments()->size() == 1);
  CHECK(folder->LoadAssignments()->at(0).start().output_dir() == "/runs/x");
  folder->ForgetAssignment(ActorLife::FromProto(assigned.start().actor()));
  CHECK(folder->LoadAssignments()->empty());
}

TEST_CASE("RuntimeFolder: an assignment that cannot be read is told, one that was never finished is forgotten",
          "[agent]") {
  Folder f;
  auto folder = RuntimeFolder::Open(f.path).value();
  REQUIRE(WriteFileAtomic(f.path + "/workers/job%2Frole%2F0%231.tmp-0123456789ab", "half").ok());
  CHECK(folder->LoadAssignments()->empty());
  CHECK_FALSE(FileExists(f.path + "/workers/job%2Frole%2F0%231.tmp-0123456789ab"));
  REQUIRE(WriteFileAtomic(f.path + "/workers/job%2Frole%2F0%231", "damaged").ok());
  absl::Status damaged = folder->LoadAssignments().status();
  CHECK(absl::IsDataLoss(damaged));
  CHECK(damaged.message().find("/workers/job") != absl::string_view::npos);
}

TEST_CASE("WorkerSpawn: the environment is exact and carries no secret", "[agent]") {
  WorkerSpawnOptions options{.worker_binary = "/bin/worker",
                             .runtime_dir = "/run/n",
                             .agent_socket = "/run/n/agent.sock",
                             .token = "0123",
                             .device_kind = "sim",
                             .devices = Devices("sim", {"0", "1", "2", "3"}),
                             .environment = {{"PATH", "/bin"},
                                             {"SECRET", "x"},
                                             {"TROUPE_TOKEN", "x"},
                                             {"TROUPE_TRACE", "1"},
                                             {"PYTHONPATH", "/py"},
                                             {"OMP_NUM_THREADS", "64"}}};
  v1::KeeperSpawn spawn = SpawnOf(Start(), options);
  CHECK(EnvironmentOf(spawn) ==
        std::set<std::string>{"PATH=/bin", "PYTHONPATH=/py", "TROUPE_TRACE=1", "TROUPE_WORKER=job/rollout/2#7",
                              "TROUPE_AGENT_SOCKET=/run/n/agent.sock",
                              "CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=",
                              "ASCEND_RT_VISIBLE_DEVICES=", "XPU_VISIBLE_DEVICES=", "TROUPE_SIM_DEVICES=1,3",
                              "OMP_NUM_THREADS=2", "OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=0"});
  CHECK(spawn.token() == "0123");
  CHECK(spawn.argv(0) == "/bin/worker");
  CHECK(spawn.log_path() == "/runs/x/logs/rollout-2.log");
  v1::StartWorker own = Start();
  own.mutable_role()->set_worker_binary("/home/u/hello");
  own.clear_output_dir();
  CHECK(SpawnOf(own, options).argv(0) == "/home/u/hello");
  CHECK(SpawnOf(own, options).log_path() == "/run/n/logs/job/rollout-2.log");
  for (const char* variable :
       {"OMP_NUM_THREADS=3", "PATH=/opt/bin", "MODE=a=b", "TROUPE_WORKER=x", "HIP_VISIBLE_DEVICES=0"}) {
    own.mutable_role()->add_environment(variable);
  }
  std::set<std::string> environment = EnvironmentOf(SpawnOf(own, options));
  for (const char* kept :
       {"OMP_NUM_THREADS=3", "PATH=/opt/bin", "MODE=a=b", "TROUPE_WORKER=job/rollout/2#7", "HIP_VISIBLE_DEVICES="}) {
    INFO(kept);
    CHECK(environment.count(kept) == 1);
  }
}

TEST_CASE("WorkerSpawn: device numbers are those of the node, by the names that the kind has for them", "[agent]") {
  WorkerSpawnOptions options{.device_kind = "cuda", .devices = Devices("cuda", {"4", "GPU-b", "6", "GPU-abc"})};
  CHECK(EnvironmentOf(SpawnOf(Start(), options)).count("CUDA_VISIBLE_DEVICES=GPU-b,GPU-abc") == 1);
  options.device_kind = "rocm";
  std::set<std::string> rocm = EnvironmentOf(SpawnOf(Start(), options));
  CHECK(rocm.count("ROCR_VISIBLE_DEVICES=GPU-b,GPU-abc") == 1);
  CHECK(rocm.count("HIP_VISIBLE_DEVICES=0,1") == 1);
  CHECK(rocm.count("CUDA_VISIBLE_DEVICES=") == 1);
}

TEST_CASE("WorkerSpawn: what a worker may use of a device's memory is told, in bytes and as a part", "[agent]") {
  WorkerSpawnOptions options{
      .device_kind = "sim",
      .devices = Devices("sim", {"0", "1", "2", "3"}),
      .environment = {{"TROUPE_DEVICE_MEMORY_BYTES", "1"}, {"TROUPE_DEVICE_MEMORY_FRACTION", "1"}}};
  auto told = [&](const v1::StartWorker& start) {
    std::string text;
    for (const std::string& variable : EnvironmentOf(SpawnOf(start, options))) {
      if (variable.rfind("TROUPE_DEVICE_MEMORY_", 0) == 0) text += variable.substr(21) + " ";
    }
    return text;
  };
  CHECK(told(Start()) == "");  // All of whole devices.
  v1::StartWorker share = Start();
  share.mutable_role()->mutable_resources()->set_device_share(0.25);
  CHECK(told(share) == "FRACTION=0.25 ");  // How much memory there is is not known.
  for (device::FoundDevice& found : options.devices) found.device.set_memory_bytes(int64_t{80} << 30);
  CHECK(told(share) == "BYTES=21474836480 FRACTION=0.25 ");
  v1::StartWorker asked = Start();
  asked.mutable_role()->mutable_resources()->set_device_memory_bytes(int64_t{20} << 30);
  CHECK(told(asked) == "BYTES=21474836480 FRACTION=0.25 ");
  asked.clear_device_indices();
  CHECK(told(asked) == "");
}

TEST_CASE("NodeResources: a control group's share of the processors", "[agent]") {
  CHECK(CpusOfQuota("150000 100000") == 1.5);
  for (const char* text : {"max 100000", "-1\n 100000\n", "", "100000", "0 100000"}) {
    INFO(text);
    CHECK(std::isinf(CpusOfQuota(text)));
  }
}

TEST_CASE("NodeResources: CPUs, memory and what users name are as asked for; anything absurd is refused", "[agent]") {
  CHECK(FindNodeResources({})->cpus() >= 1);
  CHECK(FindNodeResources({.cpus = 3.5, .memory_bytes = 1 << 30})->cpus() == 3.5);
  CHECK(FindNodeResources({.custom = {{"licence", 2}}})->custom().at("licence") == 2);
  CHECK(absl::IsInvalidArgument(FindNodeResources({.cpus = -1}).status()));
  for (const NodeResourceOptions& wrong :
       {NodeResourceOptions{.custom = {{"licence", 0}}}, NodeResourceOptions{.custom = {{"licence", -2}}},
        NodeResourceOptions{.custom = {{"licence", 1e300}}}, NodeResourceOptions{.custom = {{"", 1}}},
        NodeResourceOptions{.custom = {{std::string(65, 'x'), 1}}}}) {
    const absl::Status status = FindNodeResources(wrong).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find("resource '") != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace troupe::agent
