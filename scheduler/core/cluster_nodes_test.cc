// SPDX-License-Identifier: Apache-2.0
// Nodes that come, go and come back; heads that end. ClusterFixture checks replay and invariants after every step.
#include <catch2/catch.hpp>
#include <limits>

#include "scheduler/core/cluster_fixture.h"

namespace troupe::scheduler {
namespace {

using Lives = std::vector<std::string>;

const v1::JobSpec kTwo = Spec("two", {{"rollout", 2, 1, 1}});

TEST_CASE("Cluster nodes: suspect before lost; a lost node's workers are re-placed elsewhere", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 1));
  f.FromAgent(2, Registration("n2", 4, 1));
  f.FromAgent(3, Registration("n3", 4, 1));
  std::string id = f.Submit(kTwo).submit.job_id();
  REQUIRE(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->node == NodeId("n1"));
  auto beat = [&] { f.Heartbeat(2, 2), f.Heartbeat(3, 3); };
  for (int i = 0; i < 4; ++i) f.Wait(absl::Seconds(2)), beat();
  CHECK(!f.state().FindNode(NodeId("n1"))->ended);
  f.Advance(absl::Seconds(2));
  std::vector<Action> actions = f.Do(Tick{});
  CHECK(f.state().FindNode(NodeId("n1"))->ended);
  CHECK(Started(actions) == Lives{"rollout/0#2"});
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->node == NodeId("n3"));
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->failure_ms.empty());
  CHECK(Of<CloseSession>(actions)[0].session == 1);
}

TEST_CASE("Cluster nodes: one that returns after its end is granted nothing before its old workers exited",
          "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 2));
  std::string id = f.Submit(kTwo).submit.job_id();
  for (int i = 0; i < 5; ++i) f.Wait(absl::Seconds(2));
  REQUIRE(f.state().FindNode(NodeId("n1"))->ended);
  CHECK(f.job(id).state() == v1::JOB_STARTING);
  CHECK(f.job(id).reason() == "no node has joined yet");
  v1::AgentToHead back = Registration("n1", 4, 2, 1);
  AddRunning(Life(id, "rollout", 0, 1), back);
  AddRunning(Life(id, "rollout", 1, 1), back);
  std::vector<Action> actions = f.FromAgent(2, back);
  CHECK(Of<SendToNode>(actions)[0].message.welcome_node().unknown_workers_size() == 2);
  CHECK(Of<SendToNode>(actions)[0].message.welcome_node().node_incarnation() == 2);
  CHECK(Started(actions).empty());
  CHECK(Started(f.Exited(2, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED)).empty());
  CHECK(Started(f.Exited(2, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED)) == Lives{"rollout/0#2", "rollout/1#2"});
}

TEST_CASE("Cluster nodes: a restarted head adopts what runs, records what ended, grants anew what never came",
          "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 0));
  std::string id = f.Submit(Spec("three", {{"rollout", 3}})).submit.job_id();
  f.Restart();
  CHECK(f.state().term() == 2);
  v1::AgentToHead back = Registration("n1", 8, 0, 1);
  AddRunning(Life(id, "rollout", 0, 1), back);
  v1::WorkerExited* exit = back.mutable_register_node()->add_unacknowledged_exits();
  *exit->mutable_actor() = Life(id, "rollout", 1, 1).ToProto();
  exit->mutable_cause()->set_kind(v1::ExitCause::SIGNALED);
  std::vector<Action> actions = f.FromAgent(1, back);
  CHECK(Started(actions) == Lives{"rollout/1#2", "rollout/2#2"});
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->incarnation == 1);
  CHECK(f.state().FindReplica(Life(id, "rollout", 1, 1).path)->failure_ms.size() == 1);
  CHECK(f.state().FindReplica(Life(id, "rollout", 2, 1).path)->failure_ms.empty());
  int acknowledged = 0;
  for (const SendToNode& send : Of<SendToNode>(actions)) acknowledged += send.message.has_acknowledge_exit();
  CHECK(acknowledged == 1);
}

TEST_CASE("Cluster nodes: after a head restart a node that does not come back is lost", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  f.Submit(kTwo);
  f.Restart();
  for (int i = 0; i < 9; ++i) f.Wait(absl::Seconds(2));
  CHECK(!f.state().FindNode(NodeId("n1"))->ended);
  f.Wait(absl::Seconds(2));
  CHECK(f.state().FindNode(NodeId("n1"))->ended);
}

TEST_CASE("Cluster nodes: a stop that was lost with its stream is sent again", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  std::string id = f.Submit(kTwo).submit.job_id();
  f.Do(SessionClosed{1});
  f.Cancel(id);
  v1::AgentToHead back = Registration("n1", 8, 2, 1);
  AddRunning(Life(id, "rollout", 0, 1), back);
  AddRunning(Life(id, "rollout", 1, 1), back);
  CHECK(Stopped(f.FromAgent(2, back)) == Lives{"rollout/0#1", "rollout/1#1"});
}

TEST_CASE("Cluster nodes: a head that was stopped itself declares no node lost", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  f.Wait(absl::Hours(1));
  CHECK(!f.state().FindNode(NodeId("n1"))->ended);
}

TEST_CASE("Cluster nodes: older epochs, other protocols and doubles are refused", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  v1::AgentToHead newer = Registration("n1", 8, 2, 1);
  newer.mutable_register_node()->set_highest_term(9);
  CHECK(Of<CloseSession>(f.FromAgent(2, newer))[0].reason.code() == absl::StatusCode::kAborted);
  v1::AgentToHead other = Registration("n2", 8, 2);
  other.mutable_register_node()->set_protocol_version(kNodeProtocolVersion + 1);
  CHECK(Of<CloseSession>(f.FromAgent(3, other))[0].reason.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(Of<CloseSession>(f.FromAgent(4, Registration("n1", 8, 2)))[0].reason.code() ==
        absl::StatusCode::kAlreadyExists);
  // The largest number would leave none for the next incarnation.
  std::vector<Action> damaged = f.FromAgent(5, Registration("n3", 8, 2, std::numeric_limits<uint64_t>::max()));
  REQUIRE(Of<CloseSession>(damaged).size() == 1);
  CHECK(Of<CloseSession>(damaged)[0].reason.code() == absl::StatusCode::kInvalidArgument);
  CHECK(Of<CloseSession>(f.Heartbeat(1, 7))[0].session == 1);
  CHECK(Of<CloseSession>(f.Heartbeat(1, 1))[0].reason.code() == absl::StatusCode::kAborted);
}

TEST_CASE("Cluster nodes: a registration that a later one overtook is refused", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 8, 2));
  v1::AgentToHead first = Registration("n1", 8, 2, 1), second = first;
  first.mutable_register_node()->set_sequence(10);
  second.mutable_register_node()->set_sequence(11);
  f.FromAgent(3, second);
  std::string id = f.Submit(kTwo).submit.job_id();
  std::vector<Action> actions = f.FromAgent(2, first);
  REQUIRE(Of<CloseSession>(actions).size() == 1);
  CHECK(Of<CloseSession>(actions)[0].session == 2);
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->incarnation == 1);
}

TEST_CASE("Cluster nodes: what is left of a job moves when the lost part fits only then", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 3, 0));
  f.FromAgent(2, Registration("n2", 4, 0));
  std::string id = f.Submit(Spec("two", {{"actor", 1, 3}, {"rollout", 1, 2}})).submit.job_id();
  REQUIRE(f.state().FindReplica(Life(id, "actor", 0, 1).path)->node == NodeId("n1"));
  for (int i = 0; i < 5; ++i) f.Heartbeat(2, 2), f.Wait(absl::Seconds(2));
  // actor (3 cpus) does not fit beside rollout (2) on n2 (4); a node of 2 cpus takes rollout when it moves.
  std::vector<Action> actions = f.FromAgent(3, Registration("n3", 2, 0));
  CHECK(Stopped(actions) == Lives{"rollout/0#1"});
  actions = f.Exited(2, Life(id, "rollout", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(actions) == Lives{"actor/0#2", "rollout/0#2"});
  CHECK(f.state().FindReplica(Life(id, "rollout", 0, 2).path)->node == NodeId("n3"));
}

TEST_CASE("Cluster nodes: what is left of a job that cannot be made whole gives way after a while", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, Registration("n1", 4, 1));
  f.FromAgent(2, Registration("n2", 4, 1));
  std::string id = f.Submit(kTwo).submit.job_id();
  std::string waiting = f.Submit(Spec("one", {{"rollout", 1, 1, 1}})).submit.job_id();
  REQUIRE(f.state().FindReplica(Life(id, "rollout", 0, 1).path)->node == NodeId("n1"));
  std::vector<Action> actions;
  auto wait = [&](int seconds) {
    for (int i = 0; i < seconds; i += 2) {
      f.Heartbeat(2, 2), f.Advance(absl::Seconds(2));
      std::vector<Action> more = f.Do(Tick{});
      actions.insert(actions.end(), more.begin(), more.end());
    }
  };
  wait(68);
  CHECK(f.state().FindNode(NodeId("n1"))->ended);
  CHECK(Stopped(actions).empty());
  wait(4);
  CHECK(Stopped(actions) == Lives{"rollout/1#1"});
  f.Exited(2, Life(id, "rollout", 1, 1), v1::ExitCause::STOPPED);
  CHECK(f.job(waiting).state() == v1::JOB_STARTING);
  CHECK(f.job(id).state() == v1::JOB_PENDING);
}

TEST_CASE("Cluster nodes: two half-lost jobs that block each other: one goes back, both end", "[cluster]") {
  ClusterFixture f;
  for (int n = 1; n <= 4; ++n) f.FromAgent(n, Registration("n" + std::to_string(n), 4, 1));
  std::string first = f.Submit(kTwo).submit.job_id(), second = f.Submit(kTwo).submit.job_id();
  auto node_of = [&](const std::string& job, int r) {
    return f.state().FindReplica(Life(job, "rollout", r, 1).path)->node.value();
  };
  // One node of each job is lost.
  std::set<std::string> keep = {node_of(first, 0), node_of(second, 0)};
  std::vector<Action> actions;
  for (int i = 0; i < 5; ++i) {
    f.Advance(absl::Seconds(2));
    for (int n = 1; n <= 4; ++n) {
      if (keep.contains("n" + std::to_string(n))) f.Heartbeat(n, n);
    }
    actions = f.Do(Tick{});
  }
  CHECK(Stopped(actions) == Lives{"rollout/0#1"});
  SessionId other = static_cast<SessionId>(node_of(second, 0)[1] - '0');
  actions = f.Exited(other, Life(second, "rollout", 0, 1), v1::ExitCause::STOPPED);
  CHECK(Started(actions) == Lives{"rollout/1#2"});
  CHECK(f.job(second).state() == v1::JOB_PENDING);
  CHECK(f.job(first).state() == v1::JOB_STARTING);
}

// A registration that lists its devices.
v1::AgentToHead ListedRegistration(const std::string& node, int devices) {
  v1::AgentToHead message = Registration(node, 8, devices);
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

v1::AgentToHead Changed(int device, v1::DeviceHealth::State state, const std::string& reason) {
  v1::AgentToHead message;
  v1::Device& changed = *message.mutable_device_changed()->mutable_device();
  changed.set_index(device);
  changed.set_kind("sim");
  changed.set_numa_node(-1);
  changed.set_island(-1);
  changed.mutable_health()->set_state(state);
  changed.mutable_health()->set_reason(reason);
  return message;
}

TEST_CASE("Cluster nodes: devices are shown with their health and holders", "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, ListedRegistration("n1", 2));
  std::string id = f.Submit(Spec("one", {{"rollout", 1, 1, 1, "g"}, {"actor", 1, 1, 1, "g"}})).submit.job_id();
  const std::vector<Action> actions = f.FromAgent(1, Changed(1, v1::DeviceHealth::DEGRADED, "hot"));
  const std::vector<PublishNode> published = Of<PublishNode>(actions);
  REQUIRE(published.size() == 1);
  const v1::Node& node = *published[0].node;
  REQUIRE(node.devices_size() == 2);
  CHECK(node.devices(1).health().reason() == "hot");
  REQUIRE(node.device_use_size() == 1);
  CHECK(node.device_use(0).index() == 0);
  CHECK(node.device_use(0).share() == 1);
  REQUIRE(node.device_use(0).holders_size() == 2);
  CHECK(node.device_use(0).holders(0).job_id() == id);
  CHECK(node.device_use(0).holders(0).role() + node.device_use(0).holders(1).role() == "rolloutactor");
}

TEST_CASE("Cluster nodes: nothing new is placed on a failed device; when it is mended what waits is placed",
          "[cluster]") {
  ClusterFixture f;
  f.FromAgent(1, ListedRegistration("n1", 2));
  const std::vector<Action> actions = f.FromAgent(1, Changed(0, v1::DeviceHealth::FAILED, "Xid 79: off the bus"));
  CHECK(Of<PublishNode>(actions)[0].node->device_use(0).quarantined() == "Xid 79: off the bus");
  const std::string one = f.Submit(Spec("one", {{"rollout", 1, 1, 1}})).submit.job_id();
  CHECK(f.state().FindJob(JobId(one))->placed[0].devices == std::vector<int>{1});
  // It waits: a failed device may be mended, so it is not "never".
  const std::string two = f.Submit(Spec("two", {{"rollout", 1, 1, 1}})).submit.job_id();
  CHECK(f.job(two).state() == v1::JOB_PENDING);
  f.FromAgent(1, Changed(0, v1::DeviceHealth::HEALTHY, ""));
  CHECK(f.state().FindJob(JobId(two))->placed[0].devices == std::vector<int>{0});
}

TEST_CASE("Cluster nodes: a node that lists devices which cannot be, or changes one that it has not, is refused",
          "[cluster]") {
  ClusterFixture f;
  v1::AgentToHead two_of_three = ListedRegistration("n1", 2);
  two_of_three.mutable_register_node()->mutable_resources()->set_devices(3);
  std::vector<CloseSession> closed = Of<CloseSession>(f.FromAgent(1, two_of_three));
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].reason.message() == "node n1 reports 3 devices, but lists 2");
  f.FromAgent(2, ListedRegistration("n1", 2));
  closed = Of<CloseSession>(f.FromAgent(2, Changed(7, v1::DeviceHealth::FAILED, "")));
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].session == 2);
  CHECK(absl::IsInvalidArgument(closed[0].reason));
}

}  // namespace
}  // namespace troupe::scheduler
