// SPDX-License-Identifier: Apache-2.0
// What changes while a job of real processes runs: the number of its replicas, and a node that is drained.
#include <signal.h>

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/faults/keeper_client.h"
#include "tests/integration/cluster.h"

namespace troupe::tests {
namespace {

TEST_CASE("Change: a job is scaled up and down, the replicas that stay are not disturbed", "[change]") {
  TestCluster cluster;
  const std::string job = cluster.Submit(1);
  const std::vector<v1::Actor> before = cluster.WaitReady(job, 1);
  REQUIRE(cluster.Scale(job, 3).ok());
  const std::vector<v1::Actor> three = cluster.WaitReady(job, 3);
  CHECK(three[0].address().pid() == before[0].address().pid());
  CHECK(cluster.Add(three[2], 5).value() == 15);
  REQUIRE(cluster.Scale(job, 1).ok());
  REQUIRE(Eventually([&] { return !IsAlive(three[1].address().pid()) && !IsAlive(three[2].address().pid()); }));
  REQUIRE(Eventually([&] {
    const std::vector<v1::Actor> actors = cluster.Actors(job);
    return actors[1].state() == v1::ACTOR_DEAD && actors[2].state() == v1::ACTOR_DEAD;
  }));
  CHECK(cluster.Actors(job)[1].last_exit().kind() == v1::ExitCause::STOPPED);
  REQUIRE(cluster.Scale(job, 2).ok());
  REQUIRE(Eventually([&] { return cluster.Actors(job)[1].state() == v1::ACTOR_READY; }));
  const std::vector<v1::Actor> after = cluster.Actors(job);
  CHECK(after[1].address().actor().incarnation() > three[1].address().actor().incarnation());
  CHECK(after[0].address().pid() == before[0].address().pid());
  CHECK(cluster.Scale(job, 0).code() == absl::StatusCode::kInvalidArgument);
  CHECK(cluster.Cancel(job).state() == v1::JOB_CANCELLED);
}

TEST_CASE("Change: what runs on a drained node moves to another one, also over a kill -9 of the head", "[change]") {
  TestCluster cluster;
  const std::string job = cluster.Submit(2);
  const std::vector<v1::Actor> before = cluster.WaitReady(job, 2);
  const std::string node = before[0].address().node_id();
  REQUIRE(cluster.Drain(node, absl::Minutes(5)).ok());
  CHECK(cluster.Node(node).state() == "draining");
  CHECK(IsAlive(before[0].address().pid()));  // There is no other place yet.
  TestCluster::Kill(cluster.head, SIGKILL);
  cluster.StartHead();
  cluster.StartNode("other");
  REQUIRE(Eventually(
      [&] {
        const std::vector<v1::Actor> actors = cluster.Actors(job);
        return std::all_of(actors.begin(), actors.end(), [](const v1::Actor& actor) {
          return actor.state() == v1::ACTOR_READY && actor.address().node_id() == "other";
        });
      },
      TestCluster::kPatience));
  CHECK(cluster.Node(node).state() == "drained");
  for (const v1::Actor& actor : before) CHECK_FALSE(IsAlive(actor.address().pid()));
  CHECK(cluster.Add(cluster.Actors(job)[0], 1).value() == 11);
  CHECK(cluster.Cancel(job).state() == v1::JOB_CANCELLED);
}

}  // namespace
}  // namespace troupe::tests
