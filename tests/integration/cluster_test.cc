// SPDX-License-Identifier: Apache-2.0
// A whole cluster of real processes: a head, an agent, a keeper and workers with a user's actor class; what happens
// when each of them is killed.
#include "tests/integration/cluster.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "runtime/env/file.h"
#include "tests/faults/keeper_client.h"

namespace troupe::tests {
namespace {

void CheckAdd(TestCluster& cluster, const v1::Actor& actor, int64_t n, int64_t sum) {
  absl::StatusOr<int64_t> result = cluster.Add(actor, n);
  INFO(StatusText(result.status()));
  REQUIRE(result.ok());
  CHECK(*result == sum);
}

TEST_CASE("Cluster: a job's actors are placed, called and cancelled, and nothing of them is left", "[cluster]") {
  TestCluster cluster;
  std::string job = cluster.Submit(2);
  std::vector<v1::Actor> actors = cluster.WaitReady(job, 2);
  for (const v1::Actor& actor : actors) {
    CheckAdd(cluster, actor, 5, 15);
    CheckAdd(cluster, actor, -1, 14);
  }
  CHECK(cluster.Cancel(job).state() == v1::JOB_CANCELLED);
  for (const v1::Actor& actor : actors) CHECK_FALSE(IsAlive(actor.address().pid()));
}

TEST_CASE("Cluster: a worker that is killed is placed again in a new life, the others go on", "[cluster]") {
  TestCluster cluster;
  std::string job = cluster.Submit(2);
  std::vector<v1::Actor> before = cluster.WaitReady(job, 2);
  CheckAdd(cluster, before[1], 5, 15);
  ::kill(before[0].address().pid(), SIGKILL);
  std::vector<v1::Actor> after;
  REQUIRE(Eventually([&] {
    after = cluster.WaitReady(job, 2);
    return after[0].address().actor().incarnation() > before[0].address().actor().incarnation();
  }));
  CHECK(after[0].last_exit().signal() == SIGKILL);
  CHECK(after[0].restarts() == 1);
  CheckAdd(cluster, after[0], 1, 11);
  CheckAdd(cluster, after[1], 1, 16);
  // A stale address never reaches the successor, and the socket behind it is gone.
  CHECK_FALSE(cluster.Add(before[0], 1).ok());
  CHECK_FALSE(FileExists(before[0].address().endpoint().substr(sizeof("unix:") - 1)));
  CHECK(FileExists(after[0].address().endpoint().substr(sizeof("unix:") - 1)));
}

TEST_CASE("Cluster: kill -9 of the head ends no worker; calls go on, and the restarted head takes over", "[cluster]") {
  TestCluster cluster;
  std::string job = cluster.Submit(2);
  std::vector<v1::Actor> before = cluster.WaitReady(job, 2);
  TestCluster::Kill(cluster.head, SIGKILL);
  for (const v1::Actor& actor : before) CheckAdd(cluster, actor, 5, 15);
  // One dies while there is no head.
  ::kill(before[1].address().pid(), SIGKILL);
  REQUIRE(Eventually([&] { return !IsAlive(before[1].address().pid()); }));
  cluster.StartHead();
  std::vector<v1::Actor> after;
  REQUIRE(Eventually([&] {
    after = cluster.WaitReady(job, 2);
    return after[1].address().actor().incarnation() > before[1].address().actor().incarnation();
  }));
  CHECK(after[0].address().pid() == before[0].address().pid());
  CHECK(after[0].address().actor().incarnation() == before[0].address().actor().incarnation());
  CheckAdd(cluster, after[0], 1, 16);
  CheckAdd(cluster, after[1], 1, 11);
  CHECK(cluster.Cancel(job).state() == v1::JOB_CANCELLED);
}

TEST_CASE("Cluster: kill -9 of the agent ends no worker; the next one adopts them", "[cluster]") {
  TestCluster cluster;
  std::string job = cluster.Submit(2);
  std::vector<v1::Actor> before = cluster.WaitReady(job, 2);
  TestCluster::Kill(cluster.agent, SIGKILL);
  CheckAdd(cluster, before[0], 5, 15);
  ::kill(before[1].address().pid(), SIGKILL);
  cluster.StartAgent();
  std::vector<v1::Actor> after;
  REQUIRE(Eventually([&] {
    after = cluster.WaitReady(job, 2);
    return after[1].address().actor().incarnation() > before[1].address().actor().incarnation();
  }));
  CHECK(after[0].address().pid() == before[0].address().pid());
  CheckAdd(cluster, after[0], 1, 16);
  CheckAdd(cluster, after[1], 1, 11);
}

TEST_CASE("Cluster: kill -9 of the keeper ends its workers, and all are placed again", "[cluster]") {
  TestCluster cluster;
  std::string job = cluster.Submit(2);
  std::vector<v1::Actor> before = cluster.WaitReady(job, 2);
  ::kill(cluster.FindKeeper(), SIGKILL);
  std::vector<v1::Actor> after;
  REQUIRE(Eventually([&] {
    after = cluster.WaitReady(job, 2);
    return after[0].address().actor().incarnation() > before[0].address().actor().incarnation() &&
           after[1].address().actor().incarnation() > before[1].address().actor().incarnation();
  }));
  for (const v1::Actor& actor : before) CHECK_FALSE(IsAlive(actor.address().pid()));
  for (const v1::Actor& actor : after) CheckAdd(cluster, actor, 1, 11);
}

v1::RoleSpec DeviceHolderRole(TestCluster& cluster) {
  v1::RoleSpec role = cluster.RoleOf("DeviceHolder");
  role.mutable_resources()->set_devices(2);  // All that the node has.
  return role;
}

// DEV-1: each life takes a lock that stands for the device; it fails when the one before, or what that left, has it.
TEST_CASE("Cluster: a device is granted only when all that its last holder started has ended", "[cluster]") {
  TestCluster cluster;
  const std::string job = cluster.Submit(DeviceHolderRole(cluster));
  uint64_t incarnation = 1;
  for (; incarnation <= 3; ++incarnation) {
    const v1::Actor actor = cluster.WaitReady(job, 1, incarnation)[0];
    CHECK(actor.address().actor().incarnation() == incarnation);
    if (incarnation > 1) CHECK(actor.last_exit().signal() == SIGKILL);
    ::kill(actor.address().pid(), SIGKILL);
  }
  cluster.WaitReady(job, 1, incarnation);
  // The next job waits for the device, and gets it when the first one was stopped gracefully, child and all.
  const std::string next = cluster.Submit(DeviceHolderRole(cluster));
  CHECK(cluster.Get(next).state() == v1::JOB_PENDING);
  cluster.Cancel(job);
  const v1::Actor after = cluster.WaitReady(next, 1)[0];
  CHECK(after.address().actor().incarnation() == 1);
  CHECK(after.restarts() == 0);
}

}  // namespace
}  // namespace troupe::tests
