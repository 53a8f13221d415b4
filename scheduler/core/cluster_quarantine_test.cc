// SPDX-License-Identifier: Apache-2.0
// Devices that are not trusted. ClusterFixture checks replay and invariants after every step.
#include <catch2/catch.hpp>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

ActorLife Life(const std::string& job, int replica, uint64_t incarnation) {
  return {{JobId(job), "rollout", replica}, incarnation};
}

v1::AgentToHead Listed(const std::string& node, double cpus, int devices) {
  v1::AgentToHead message = Registration(node, cpus, devices);
  for (int i = 0; i < devices; ++i) {
    v1::Device& device = *message.mutable_register_node()->add_devices();
    device.set_index(i);
    device.set_kind("sim");
    device.set_numa_node(-1);
    device.set_island(-1);
    device.mutable_health()->set_state(v1::DeviceHealth::HEALTHY);
  }
  return message;
}

v1::AgentToHead Health(int device, v1::DeviceHealth::State state) {
  v1::AgentToHead message;
  v1::Device& changed = *message.mutable_device_changed()->mutable_device();
  changed.set_index(device);
  changed.set_kind("sim");
  changed.set_numa_node(-1);
  changed.set_island(-1);
  changed.mutable_health()->set_state(state);
  changed.mutable_health()->set_reason(state == v1::DeviceHealth::FAILED ? "Xid 79" : "");
  return message;
}

// A job of one worker on one device that crashes and is not started again.
v1::JobSpec Crashing(const std::string& name) {
  v1::JobSpec spec = Spec(name, {{"rollout", 1, 1, 1}});
  spec.mutable_roles(0)->mutable_restart()->set_max_restarts(0);
  return spec;
}

std::vector<int> DevicesOf(const ClusterFixture& f, const std::string& job) {
  return f.state().FindJob(JobId(job))->placed[0].devices;
}

void Crash(ClusterFixture& f, const std::string& name, v1::ExitCause::Kind kind, int signal) {
  const std::string id = f.Submit(Crashing(name)).submit.job_id();
  REQUIRE(DevicesOf(f, id) == std::vector<int>{0});
  f.Exited(1, Life(id, 0, 1), kind, signal);
}

void Pass(ClusterFixture& f, int seconds) {
  for (int i = 0; i < seconds; i += 2) f.Heartbeat(1, 1), f.Wait(absl::Seconds(2));
}

TEST_CASE("Quarantine: a device on which workers of three jobs fail gets nothing for a while, longer each time",
          "[quarantine]") {
  ClusterFixture f;
  f.FromAgent(1, Listed("n1", 8, 1));
  for (const char* name : {"a", "b", "c"}) Crash(f, name, v1::ExitCause::SIGNALED, 11);
  const std::string id = f.Submit(Spec("next", {{"rollout", 1, 1, 1}})).submit.job_id();
  CHECK(f.job(id).state() == v1::JOB_PENDING);
  REQUIRE(f.node("n1").device_use_size() == 1);
  CHECK(f.node("n1").device_use(0).quarantined() ==
        "workers of 3 jobs failed on it within 10 min and on no other device, the last one killed by signal 11");
  Pass(f, 58);
  CHECK(f.job(id).state() == v1::JOB_PENDING);
  Pass(f, 2);
  CHECK(f.job(id).state() == v1::JOB_STARTING);
  f.Cancel(id);
  f.Exited(1, Life(id, 0, 1), v1::ExitCause::STOPPED);
  Pass(f, 600);  // The first evidence is old.
  for (const char* name : {"d", "e", "f"}) Crash(f, name, v1::ExitCause::HUNG, 0);
  CHECK(f.state().FindNode(NodeId("n1"))->quarantined.at(0).times == 2);
  const std::string again = f.Submit(Spec("next", {{"rollout", 1, 1, 1}})).submit.job_id();
  Pass(f, 118);
  CHECK(f.job(again).state() == v1::JOB_PENDING);
  Pass(f, 2);
  CHECK(f.job(again).state() == v1::JOB_STARTING);
}

TEST_CASE("Quarantine: what the program does wrong, and kills from outside, blame no device", "[quarantine]") {
  ClusterFixture f;
  f.FromAgent(1, Listed("n1", 8, 1));
  SECTION("killed from outside") {
    for (const char* name : {"a", "b", "c"}) Crash(f, name, v1::ExitCause::SIGNALED, 9);
  }
  SECTION("out of memory") {
    for (const char* name : {"a", "b", "c"}) Crash(f, name, v1::ExitCause::OUT_OF_MEMORY, 9);
  }
  SECTION("one job again and again") {
    const std::string id = f.Submit(Spec("one", {{"rollout", 1, 1, 1}})).submit.job_id();
    for (uint64_t i = 1; i <= 3; ++i) {
      f.Exited(1, Life(id, 0, i), v1::ExitCause::SIGNALED, 11);
      Pass(f, 2);
      CHECK(f.state().FindReplica(Life(id, 0, 1).path)->incarnation == i + 1);
    }
  }
  CHECK(f.state().FindNode(NodeId("n1"))->quarantined.empty());
}

TEST_CASE("Quarantine: jobs that fail on every device blame none", "[quarantine]") {
  ClusterFixture f;
  f.FromAgent(1, Listed("n1", 8, 2));
  for (const char* name : {"a", "b", "c", "d"}) {
    v1::JobSpec spec = Spec(name, {{"rollout", 2, 1, 1}});
    const std::string id = f.Submit(spec).submit.job_id();
    f.Exited(1, Life(id, 0, 1), v1::ExitCause::SIGNALED, 11);
    f.Exited(1, Life(id, 1, 1), v1::ExitCause::SIGNALED, 11);
    f.Cancel(id);
    for (int n : {0, 1}) f.Exited(1, Life(id, n, 2), v1::ExitCause::STOPPED);
  }
  CHECK(f.state().FindNode(NodeId("n1"))->quarantined.empty());
}

TEST_CASE("Quarantine: who holds a failed device moves, like from a drained node", "[quarantine]") {
  ClusterFixture f;
  f.FromAgent(1, Listed("n1", 8, 2));
  const std::string id = f.Submit(Spec("one", {{"rollout", 1, 1, 1}})).submit.job_id();
  REQUIRE(DevicesOf(f, id) == std::vector<int>{0});
  CHECK(Stopped(f.FromAgent(1, Health(0, v1::DeviceHealth::FAILED))) == Lives{"rollout/0#1"});
  CHECK(f.node("n1").device_use(0).quarantined() == "Xid 79");
  CHECK(Started(f.Exited(1, Life(id, 0, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/0#2"});
  CHECK(DevicesOf(f, id) == std::vector<int>{1});
  CHECK(f.state().FindReplica(Life(id, 0, 1).path)->failure_ms.empty());
}

TEST_CASE("Quarantine: a worker whose device failed is not started there again; without another one it waits",
          "[quarantine]") {
  ClusterFixture f;
  f.FromAgent(1, Listed("n1", 8, 1));
  const std::string id = f.Submit(Spec("one", {{"rollout", 1, 1, 1}})).submit.job_id();
  CHECK(Stopped(f.FromAgent(1, Health(0, v1::DeviceHealth::FAILED))).empty());  // There is no other place.
  CHECK(Started(f.Exited(1, Life(id, 0, 1), v1::ExitCause::SIGNALED, 7)).empty());
  CHECK(Started(f.FromAgent(1, Health(0, v1::DeviceHealth::HEALTHY))) == Lives{"rollout/0#2"});
  SECTION("at the deadline it is stopped") {
    f.FromAgent(1, Health(0, v1::DeviceHealth::FAILED));
    Pass(f, 598);
    CHECK(Stopped(f.actions()).empty());
    Pass(f, 2);
    CHECK(Stopped(f.actions()) == Lives{"rollout/0#2"});
  }
  SECTION("one that fails again is not trusted at once when it is well") {
    f.FromAgent(1, Health(0, v1::DeviceHealth::FAILED));
    f.Exited(1, Life(id, 0, 2), v1::ExitCause::SIGNALED, 7);
    CHECK(Started(f.FromAgent(1, Health(0, v1::DeviceHealth::HEALTHY))).empty());
    f.Restart();
    v1::AgentToHead registration = Listed("n1", 8, 1);
    registration.mutable_register_node()->set_node_incarnation(1);
    f.FromAgent(1, registration);
    CHECK(!f.state().FindReplica(Life(id, 0, 1).path)->live);
    Pass(f, 120);
    CHECK(f.state().FindReplica(Life(id, 0, 1).path)->live);
  }
}

}  // namespace
}  // namespace troupe::scheduler
