// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/cluster.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/status.h"
#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/keeper/process_table.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/status.h"
#include "tests/faults/keeper_client.h"

namespace troupe::tests {
namespace {

std::string Program(const std::string& path) { return std::filesystem::absolute(path).string(); }

pid_t Launch(std::vector<std::string> args) {
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  return pid;
}

}  // namespace

TestCluster::TestCluster() : folder_(MakeTemporaryDirectory("troupe-cluster").value()) {
  security_.token = Token::Generate();
  stub_ = v1::Head::NewStub(MakeChannel(head_address_, security_));
  transport_ = Transport::Create({.process_name = "test", .security = security_}, host_);
  StartHead();
  StartAgent();
}

TestCluster::~TestCluster() {
  transport_->Shutdown();
  for (auto& [node_id, process] : nodes) EndNode(node_id, process);
  EndNode("", agent);
  Kill(head, SIGTERM);
  static_cast<void>(RemoveTree(folder_));
}

void TestCluster::EndNode(const std::string& node_id, pid_t& process) {
  Kill(process, SIGTERM);
  CHECK(NodeProcesses(node_id).empty());
  if (pid_t keeper = FindKeeper(node_id); keeper != 0) ::kill(keeper, SIGTERM);
  for (pid_t pid : NodeProcesses(node_id)) ::kill(pid, SIGKILL);
}

void TestCluster::StartHead() {
  head = Launch({Program("tests/integration/head_main"), head_address_, folder_ + "/head", security_.token});
}

void TestCluster::StartAgent() {
  agent = Launch({Program("tests/faults/agent_main"), head_address_, RuntimeDir(""), security_.token,
                  Program("tools/keeper/troupe_keeper"), Program("tests/integration/counter_worker"), "60000"});
}

pid_t TestCluster::StartNode(const std::string& node_id) {
  return nodes[node_id] = Launch({Program("tests/faults/agent_main"), head_address_, RuntimeDir(node_id),
                                  security_.token, Program("tools/keeper/troupe_keeper"),
                                  Program("tests/integration/counter_worker"), "60000", node_id, "127.0.0.1"});
}

void TestCluster::Kill(pid_t& process, int signal) {
  if (process == 0) return;
  ::kill(process, signal);
  if (!Eventually([&] { return ::waitpid(process, nullptr, WNOHANG) == process; }, kPatience)) {
    FAIL_CHECK("process " << process << " does not end");
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  process = 0;
}

void TestCluster::WaitNode(const std::string& node_id) {
  bool ready = Eventually(
      [&] {
        grpc::ClientContext context;
        SetTimeout(context, kPatience);
        context.set_wait_for_ready(true);
        v1::ListNodesResponse response;
        if (!stub_->ListNodes(&context, {}, &response).ok()) return false;
        return std::any_of(response.nodes().begin(), response.nodes().end(),
                           [&](const v1::Node& node) { return node.node_id() == node_id && node.state() == "ready"; });
      },
      kPatience);
  REQUIRE(ready);
}

std::string TestCluster::Submit(int replicas) {
  v1::RoleSpec role = RoleOf("Counter");
  role.set_replicas(replicas);
  role.set_args_json("[10]");
  return Submit(role);
}

v1::RoleSpec TestCluster::RoleOf(const std::string& actor_class) const {
  v1::RoleSpec role;
  role.set_role("counter");
  role.set_actor_class(actor_class);
  role.set_replicas(1);
  role.set_worker_binary(Program("tests/integration/counter_worker"));
  role.mutable_resources()->set_cpus(0.5);
  role.mutable_restart()->set_max_restarts(5);
  return role;
}

std::string TestCluster::Submit(const v1::RoleSpec& role) {
  v1::SubmitJobRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("actors");
  spec.set_output_dir(output_dir_);
  spec.set_stop_grace_ms(5000);
  *spec.add_roles() = role;
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  context.set_wait_for_ready(true);
  v1::SubmitJobResponse response;
  absl::Status status = FromGrpc(stub_->SubmitJob(&context, request, &response));
  INFO(StatusText(status));
  REQUIRE(status.ok());
  return response.job_id();
}

absl::Status TestCluster::Scale(const std::string& job_id, int replicas) {
  v1::ScaleJobRequest request;
  request.set_job_id(job_id);
  request.set_role("counter");
  request.set_replicas(replicas);
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  v1::Job response;
  return FromGrpc(stub_->ScaleJob(&context, request, &response));
}

absl::Status TestCluster::Drain(const std::string& node_id, absl::Duration deadline) {
  v1::DrainNodeRequest request;
  request.set_node_id(node_id);
  request.set_deadline_ms(absl::ToInt64Milliseconds(deadline));
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  v1::Node response;
  return FromGrpc(stub_->DrainNode(&context, request, &response));
}

v1::Node TestCluster::Node(const std::string& node_id) {
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  v1::ListNodesResponse response;
  REQUIRE(stub_->ListNodes(&context, {}, &response).ok());
  for (const v1::Node& node : response.nodes()) {
    if (node.node_id() == node_id) return node;
  }
  return {};
}

v1::Job TestCluster::Get(const std::string& job_id) {
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  context.set_wait_for_ready(true);
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  v1::Job job;
  absl::Status status = FromGrpc(stub_->GetJob(&context, request, &job));
  INFO(StatusText(status));
  REQUIRE(status.ok());
  return job;
}

v1::Job TestCluster::Cancel(const std::string& job_id) {
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  v1::Job job;
  absl::Status status = FromGrpc(stub_->CancelJob(&context, request, &job));
  INFO(StatusText(status));
  REQUIRE(status.ok());
  return job;
}

std::vector<v1::Actor> TestCluster::Actors(const std::string& job_id) {
  grpc::ClientContext context;
  SetTimeout(context, kPatience);
  context.set_wait_for_ready(true);
  v1::ListActorsRequest request;
  request.set_job_id(job_id);
  v1::ListActorsResponse response;
  if (!stub_->ListActors(&context, request, &response).ok()) return {};
  std::vector<v1::Actor> actors(response.actors().begin(), response.actors().end());
  std::sort(actors.begin(), actors.end(), [](const v1::Actor& a, const v1::Actor& b) {
    return a.address().actor().id().replica() < b.address().actor().id().replica();
  });
  return actors;
}

std::vector<v1::Actor> TestCluster::WaitReady(const std::string& job_id, size_t count, uint64_t incarnation) {
  std::vector<v1::Actor> actors;
  bool ready = Eventually(
      [&] {
        actors = Actors(job_id);
        return actors.size() == count && std::all_of(actors.begin(), actors.end(), [&](const v1::Actor& a) {
                 return a.state() == v1::ACTOR_READY && a.address().actor().incarnation() >= incarnation;
               });
      },
      kPatience);
  std::string text;
  for (const v1::Actor& actor : actors) text += actor.ShortDebugString() + "\n";
  INFO(text << Log());
  REQUIRE(ready);
  return actors;
}

absl::StatusOr<int64_t> TestCluster::Add(const v1::Actor& actor, int64_t n) {
  ActorAddress address{ActorLife::FromProto(actor.address().actor()), actor.address().endpoint()};
  return Ref<Counter>(address, transport_).Call<&Counter::Add>(n).Get();
}

std::string TestCluster::Log() const {
  std::string text;
  for (const std::string& name : ListDirectory(output_dir_ + "/logs").value_or(std::vector<std::string>())) {
    text += ReadFile(output_dir_ + "/logs/" + name, 1 << 20).value_or("");
  }
  return text;
}

pid_t TestCluster::FindKeeper(const std::string& node_id) const {
  for (const keeper::ProcessEntry& entry : keeper::ReadProcessTable()) {
    if (entry.zombie) continue;
    std::string text = ReadFile("/proc/" + std::to_string(entry.pid) + "/cmdline", 1 << 20).value_or("");
    if (text.find("--runtime-dir") != std::string::npos && text.find(RuntimeDir(node_id) + '\0') != std::string::npos) {
      return entry.pid;
    }
  }
  return 0;
}

std::vector<pid_t> TestCluster::NodeProcesses(const std::string& node_id) const {
  std::vector<pid_t> found;
  if (pid_t keeper = FindKeeper(node_id); keeper != 0) found.push_back(keeper);
  for (const keeper::ProcessEntry& entry : keeper::ReadProcessTable()) {
    if (!entry.zombie && keeper::HasEnvironmentEntry(entry.pid, "TROUPE_KEEPER=" + RuntimeDir(node_id))) {
      found.push_back(entry.pid);
    }
  }
  return found;
}

}  // namespace troupe::tests
