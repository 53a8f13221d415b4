// SPDX-License-Identifier: Apache-2.0
// Objects between nodes of real processes: two agents with keepers and workers on one machine, and what happens when
// processes, agents and nodes are killed.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/base/status.h"
#include "tests/faults/keeper_client.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_actor.h"

namespace troupe::tests {
namespace {

using troupe_test::Worker;

constexpr int64_t kElements = 1 << 20;
constexpr int64_t kSum = kElements * (kElements - 1) / 2;

// One worker on each of two nodes.
struct Two {
  TestCluster cluster;
  std::string job;
  v1::Actor actors[2];
  std::vector<Ref<Worker>> workers;

  const std::string& NodeOf(int i) const { return actors[i].address().node_id(); }

  Two() {
    TestCluster::Kill(cluster.agent, SIGTERM);  // Nobody reaches that one from outside.
    for (const char* node : {"left", "right"}) {
      cluster.StartNode(node);
      cluster.WaitNode(node);
    }
    v1::RoleSpec role;
    role.set_role("worker");
    role.set_actor_class("Worker");
    role.set_replicas(2);
    role.set_args_json("[1]");
    role.set_worker_binary(std::filesystem::absolute("tests/integration/process_worker").string());
    role.mutable_resources()->set_cpus(3);  // Of a node's four.
    role.mutable_restart()->set_max_restarts(5);
    job = cluster.Submit(role);
    std::vector<v1::Actor> ready = cluster.WaitReady(job, 2);
    for (int i : {0, 1}) actors[i] = ready[static_cast<size_t>(i)];
    for (const v1::Actor& actor : ready) {
      ActorAddress address{ActorLife::FromProto(actor.address().actor()), actor.address().endpoint()};
      workers.emplace_back(address, cluster.transport());
    }
    REQUIRE(NodeOf(0) != NodeOf(1));
  }
};

TEST_CASE("Pulls: a ref from an actor on another node is got as any other, and the figures tell", "[cluster]") {
  Two f;
  absl::StatusOr<int64_t> sum = f.workers[0].Call<&Worker::SumFrom>(f.workers[1], kElements).Get();
  INFO(sum.status() << f.cluster.Log());
  REQUIRE(sum.ok());
  CHECK(*sum == kSum);
  std::string explained = f.workers[0].Call<&Worker::ExplainKept>().Get().value();
  CHECK(explained.find("on node " + f.NodeOf(1)) != std::string::npos);
  CHECK(explained.find("read from this node's copy") != std::string::npos);
  std::vector<int64_t> there, here;
  CHECK(Eventually([&] {
    there = f.workers[1].Call<&Worker::FetchedAndSent>().Get().value();
    here = f.workers[0].Call<&Worker::FetchedAndSent>().Get().value();
    return there[1] > 0 && here[0] > 0;
  }));
  CHECK(here[0] >= kElements * 8);
  CHECK(there[1] == here[0]);
  // As an argument, and back.
  CHECK(f.workers[1].Call<&Worker::SumFrom>(f.workers[0], 10).Get().value() == 45);
}

TEST_CASE("Pulls: what its maker made before it was killed is got from its node", "[cluster]") {
  Two f;
  REQUIRE(f.workers[1].Call<&Worker::MakeKept>(kElements).Get().ok());
  absl::Status kept = f.workers[0].Call<&Worker::KeepFrom>(f.workers[1]).Get();
  INFO(kept << f.cluster.Log());
  REQUIRE(kept.ok());
  ::kill(static_cast<pid_t>(f.actors[1].address().pid()), SIGKILL);
  REQUIRE(Eventually([&] { return !IsAlive(f.actors[1].address().pid()); }));
  absl::StatusOr<int64_t> sum = f.workers[0].Call<&Worker::SumOfKept>().Get();
  INFO(sum.status());
  CHECK(sum.value_or(0) == kSum);
}

TEST_CASE("Pulls: kill -9 of both agents loses no object; the next ones fetch it", "[cluster]") {
  Two f;
  REQUIRE(f.workers[1].Call<&Worker::MakeKept>(kElements).Get().ok());
  REQUIRE(f.workers[0].Call<&Worker::KeepFrom>(f.workers[1]).Get().ok());
  for (auto& [node, process] : f.cluster.nodes) {
    TestCluster::Kill(process, SIGKILL);
    f.cluster.StartNode(node);
  }
  absl::StatusOr<int64_t> sum = f.workers[0].Call<&Worker::SumOfKept>().Get();
  INFO(sum.status());
  CHECK(sum.value_or(0) == kSum);
}

TEST_CASE("Pulls: of a node that is gone the error names it, within the time of the get", "[cluster]") {
  Two f;
  REQUIRE(f.workers[1].Call<&Worker::MakeKept>(kElements).Get().ok());
  REQUIRE(f.workers[0].Call<&Worker::KeepFrom>(f.workers[1]).Get().ok());
  const std::string gone = f.NodeOf(1);
  std::vector<pid_t> processes = f.cluster.NodeProcesses(gone);
  TestCluster::Kill(f.cluster.nodes[gone], SIGKILL);
  for (pid_t process : processes) ::kill(process, SIGKILL);
  Monotonic begun = MonotonicNow();
  absl::Status lost = f.workers[0].Call<&Worker::SumOfKept>().Get().status();
  INFO(lost);
  CHECK(lost.code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(lost.message()).find("of node " + gone) != std::string::npos);
  CHECK(MonotonicNow() - begun < absl::Seconds(29));
}

}  // namespace
}  // namespace troupe::tests
