// SPDX-License-Identifier: Apache-2.0
#include "scheduler/testing/simulated_cluster.h"

#include <catch2/catch.hpp>

#include "scheduler/core/invariants.h"

namespace troupe::scheduler {
namespace {

v1::JobSpec Gang(int replicas, int devices) {
  v1::JobSpec spec;
  spec.set_name("gang");
  spec.set_output_dir("/tmp/gang");
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("member");
  role->set_actor_class("Any");
  role->set_replicas(replicas);
  role->mutable_resources()->set_cpus(1);
  role->mutable_resources()->set_devices(devices);
  return spec;
}

TEST_CASE("SimulatedCluster: gangs come, are lost with a node and placed anew at once, and go", "[cluster]") {
  SimulatedCluster cluster({.nodes = 4});
  std::string first = cluster.Submit(Gang(8, 1)).value();
  CHECK(cluster.last().placed == 8);
  std::string second = cluster.Submit(Gang(16, 1)).value();
  CHECK(cluster.last().placed == 16);
  // The first one took a node of its own: the fullest that fits.
  const NodeId lost = cluster.cluster().state().FindJob(JobId(first))->placed[0].node;
  cluster.AddNode(lost.value(), 64, 8);
  CHECK(cluster.last().placed == 8);
  CHECK(BrokenInvariants(cluster.cluster().state()).empty());
  std::string waits = cluster.Submit(Gang(16, 1)).value();
  CHECK(cluster.last().placed == 0);
  cluster.Cancel(second);
  CHECK(cluster.cluster().state().FindJob(JobId(second))->ended());
  CHECK(cluster.cluster().state().FindJob(JobId(waits))->phase == v1::StoredJob::PLACED);
  CHECK(cluster.Submit(Gang(1, 9)).status().code() == absl::StatusCode::kFailedPrecondition);
  cluster.Cancel(first);
  cluster.Cancel(waits);
  for (const auto& [id, node] : cluster.cluster().state().nodes()) CHECK(node.jobs.empty());
}

}  // namespace
}  // namespace troupe::scheduler
