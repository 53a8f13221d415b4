// SPDX-License-Identifier: Apache-2.0
// Cluster: what agents report. Registration and reconciliation, exits, leases.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/device_report.h"
#include "scheduler/core/restart_policy.h"

namespace troupe::scheduler {
namespace {

// Far above what a head can grant: one a microsecond for a century.
constexpr uint64_t kIncarnationMax = uint64_t{1} << 52;

}  // namespace

void Cluster::On(const FromNode& event) {
  for (const v1::AgentToHead& message : event.messages.messages()) Hear(event.session, message, event.received);
}

void Cluster::Hear(SessionId stream, const v1::AgentToHead& message, Monotonic received) {
  if (message.has_register_node()) return Register(stream, message.register_node(), received);
  auto session = sessions_.find(stream);
  if (session == sessions_.end()) {
    return Act(CloseSession{stream, absl::AbortedError("this stream is not the node's: dial again")});
  }
  NodeId id = session->second;
  NodeSoft& node = nodes_.at(id);
  node.lease.Heard(received);
  if (node.suspect && node.lease.At(now_.monotonic) == NodeLiveness::kAlive) {
    node.suspect = false;
    NodeBecameUsable(id);
  }
  switch (message.message_case()) {
    case v1::AgentToHead::kHeartbeat: {
      uint64_t lives = state_.FindNode(id)->incarnation;
      if (message.heartbeat().node_incarnation() == lives) return;
      node.session = 0;
      sessions_.erase(stream);
      NodeChanged(id);
      return Act(CloseSession{
          stream, absl::AbortedError(absl::StrCat("stale epoch: node incarnation ",
                                                  message.heartbeat().node_incarnation(), "; ", lives, " lives"))});
    }
    case v1::AgentToHead::kWorkerStarted: {
      ActorLife life = ActorLife::FromProto(message.worker_started().actor());
      if (!LivesOn(life, id)) return;
      workers_[life.path].pid = message.worker_started().pid();
      return Touch(life.path);
    }
    case v1::AgentToHead::kWorkerReady:
      return WorkerReady(id, message.worker_ready().address());
    case v1::AgentToHead::kWorkerExited:
      return WorkerExited(id, stream, message.worker_exited());
    case v1::AgentToHead::kDeviceChanged:
      return DeviceChanged(id, stream, message.device_changed().device());
    default:
      return;
  }
}

void Cluster::On(const SessionClosed& event) {
  auto session = sessions_.find(event.session);
  if (session == sessions_.end()) return;
  nodes_.at(session->second).session = 0;
  NodeChanged(session->second);
  sessions_.erase(session);
}

absl::Status Cluster::CheckRegistration(const v1::RegisterNode& message) const {
  if (message.node_id().empty() || message.node_id().size() > 4 * kNameBytesMax) {
    return absl::InvalidArgumentError("node_id is empty or too long");
  }
  if (message.protocol_version() != kNodeProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("node ", message.node_id(), " (version ", message.version(),
                                                      ") speaks protocol ", message.protocol_version(),
                                                      "; this head speaks ", kNodeProtocolVersion));
  }
  if (message.highest_term() > term()) {
    return absl::AbortedError(
        absl::StrCat("stale epoch: this head's term is ", term(), "; the node has seen ", message.highest_term()));
  }
  if (message.node_incarnation() > kIncarnationMax) {
    return absl::InvalidArgumentError(absl::StrCat("node ", message.node_id(), " says it is in incarnation ",
                                                   message.node_incarnation(), ": its identity file is damaged"));
  }
  const v1::Resources& r = message.resources();
  if (!(r.cpus() >= 0 && r.cpus() <= kCpusMax) || r.memory_bytes() < 0 || r.memory_bytes() > kMemoryBytesMax ||
      r.devices() < 0 || r.devices() > kDevicesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", message.node_id(), " reports impossible resources: ", r.ShortDebugString()));
  }
  if (absl::Status devices = CheckDevices(message); !devices.ok()) return devices;
  auto node = nodes_.find(NodeId(message.node_id()));
  if (node != nodes_.end() && node->second.registered && message.node_incarnation() != 0 &&
      message.sequence() < node->second.info.sequence()) {
    return absl::AbortedError("a later registration of this node overtook this one: its inventory is old");
  }
  if (message.node_incarnation() == 0 && node != nodes_.end() && node->second.session != 0 &&
      node->second.lease.At(now_.monotonic) == NodeLiveness::kAlive) {
    return absl::AlreadyExistsError(absl::StrCat("a node '", message.node_id(),
                                                 "' is connected: give one of them another "
                                                 "id, or wait until the other one's lease runs out"));
  }
  return absl::OkStatus();
}

// Only an inventory that was reconciled makes a node usable (NODE-1).
void Cluster::Register(SessionId session, const v1::RegisterNode& message, Monotonic received) {
  if (absl::Status status = CheckRegistration(message); !status.ok()) return Act(CloseSession{session, status});
  NodeId id(message.node_id());
  const NodeRecord* record = state_.FindNode(id);
  bool living = record != nullptr && record->incarnation != 0 && !record->ended;
  if (living && message.node_incarnation() != record->incarnation) {
    EndNode(id, "its agent came back without what it was told");
    living = false;
  }
  if (!living) {
    v1::Record granted;
    granted.mutable_node_granted()->set_node_id(id.value());
    granted.mutable_node_granted()->set_node_incarnation(
        std::max(state_.last_node_incarnation(), message.node_incarnation()) + 1);
    Commit(std::move(granted));
  }
  NodeSoft& node = nodes_[id];
  if (node.session != 0 && node.session != session) {
    sessions_.erase(node.session);
    Act(CloseSession{node.session, absl::AbortedError("another stream of this node took over")});
  }
  node = NodeSoft{.session = session, .registered = true, .info = message};
  node.info.clear_workers();
  node.info.clear_unacknowledged_exits();
  node.total = Amount::FromProto(message.resources());
  node.total.device_shares = 0;
  node.lease = NodeLease(options_.lease, received);
  lease_wake_ = std::min(lease_wake_, node.lease.NextChange(now_.monotonic));
  sessions_[session] = id;
  node.facts = FactsOf(message);
  empty_.Set(CapacityOf(id, node, nullptr));
  NoticeFailedDevices(id);
  Reconcile(id, message);
}

void Cluster::Reconcile(const NodeId& id, const v1::RegisterNode& message) {
  NodeSoft& node = nodes_.at(id);
  std::set<ActorLife> present;
  for (const v1::RunningWorker& worker : message.workers()) {
    ActorLife life = ActorLife::FromProto(worker.actor());
    present.insert(life);
    if (!LivesOn(life, id)) node.unknown.insert(life);
  }
  Welcome(id, node);
  for (const v1::WorkerExited& exit : message.unacknowledged_exits()) WorkerExited(id, node.session, exit);
  for (const v1::RunningWorker& worker : message.workers()) {
    ActorLife life = ActorLife::FromProto(worker.actor());
    if (LivesOn(life, id)) Adopt(life, worker);
  }
  std::vector<ActorLife> missing;
  for (const JobId& job_id : state_.FindNode(id)->jobs) {
    for (const auto& [key, replica] : state_.FindJob(job_id)->replicas) {
      ActorLife life{{job_id, key.role, key.replica}, replica.incarnation};
      if (LivesOn(life, id) && !present.contains(life)) missing.push_back(life);
    }
  }
  for (const ActorLife& life : missing) RecordNeverStarted(life);
  if (node.usable()) NodeBecameUsable(id);
  NodeChanged(id);
}

void Cluster::Welcome(const NodeId& id, const NodeSoft& node) {
  v1::HeadToAgent message;
  v1::WelcomeNode& welcome = *message.mutable_welcome_node();
  welcome.set_term(term());
  welcome.set_node_incarnation(state_.FindNode(id)->incarnation);
  welcome.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(options_.heartbeat_interval));
  welcome.set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
  welcome.set_head_loss_grace_ms(absl::ToInt64Milliseconds(options_.head_loss_grace));
  for (const ActorLife& life : node.unknown) *welcome.add_unknown_workers() = life.ToProto();
  Send(node.session, std::move(message));
}

// A worker of the state that runs where the state says (LIVE-1).
bool Cluster::LivesOn(const ActorLife& life, const NodeId& id) const {
  const Replica* replica = state_.FindReplica(life.path);
  const NodeRecord* node = state_.FindNode(id);
  return replica != nullptr && node != nullptr && replica->live && replica->incarnation == life.incarnation &&
         replica->node == id && replica->node_incarnation == node->incarnation;
}

void Cluster::Adopt(const ActorLife& life, const v1::RunningWorker& worker) {
  WorkerSoft& soft = Soft(life.path, "its node reported it");
  soft.ready = worker.ready();
  soft.pid = worker.pid();
  soft.endpoint = worker.endpoint();
  soft.remote_endpoint = worker.remote_endpoint();
  soft.stop_sent = false;  // What was sent on an older stream may not have arrived.
  dirty_.insert(life.path.job);
}

void Cluster::WorkerReady(const NodeId& id, const v1::ActorAddress& address) {
  ActorLife life = ActorLife::FromProto(address.actor());
  if (!LivesOn(life, id)) return;
  WorkerSoft& soft = Soft(life.path, "ready");
  soft.ready = true;
  soft.endpoint = address.endpoint();
  soft.remote_endpoint = address.remote_endpoint();
  if (address.pid() != 0) soft.pid = address.pid();
  const JobRecord& job = *state_.FindJob(life.path.job);
  Log(job, "ready", "",
      ReplicaKey{life.path.role, life.path.replica}.ToString() + "#" + std::to_string(life.incarnation), id);
  job_views_.insert(job.id);
}

// Acknowledged whether or not the state knows it: what it does not know is settled already.
void Cluster::WorkerExited(const NodeId& id, SessionId session, const v1::WorkerExited& exit) {
  ActorLife life = ActorLife::FromProto(exit.actor());
  if (LivesOn(life, id)) RecordExit(life, exit.cause());
  v1::HeadToAgent acknowledge;
  *acknowledge.mutable_acknowledge_exit()->mutable_actor() = exit.actor();
  Send(session, std::move(acknowledge));
  NodeSoft& node = nodes_.at(id);
  if (node.unknown.erase(life) > 0 && node.usable()) NodeBecameUsable(id);
}

void Cluster::RecordExit(const ActorLife& life, const v1::ExitCause& cause) {
  const JobRecord& job = *state_.FindJob(life.path.job);
  const Replica& replica = *state_.FindReplica(life.path);
  RestartLimits limits = RestartLimits::FromProto(job.role(life.path.role));
  const ReplicaKey key{life.path.role, life.path.replica};
  const Group* gang = job.gang(key.role);
  const bool of_old_gang = gang != nullptr && replica.generation < gang->generation;
  const bool asked = job.stopping() || !job.StopReason(key, replica).empty();
  bool counted = CountsAsFailure(cause, asked);
  bool done = !job.has_controller() && cause.kind() == v1::ExitCause::EXITED && cause.exit_code() == 0 && !of_old_gang;
  RestartDecision decision{.restart_at_ms = ClusterMs(), .reason = CauseText(cause)};
  if (counted && !done) {
    decision = DecideRestart(limits, replica.failure_ms, replica.out_of_memory_ms, cause, ClusterMs());
  } else if (cause.kind() == v1::ExitCause::STOPPED && !asked) {
    decision.restart_at_ms += limits.backoff_initial_ms;  // Its node stopped it by itself.
  }
  v1::Record record;
  v1::WorkerExitRecorded& exit = *record.mutable_worker_exit_recorded();
  *exit.mutable_actor() = life.ToProto();
  *exit.mutable_cause() = cause;
  exit.set_counted(counted && !done);
  exit.set_done(done);
  exit.set_restart_at_ms(decision.restart_at_ms);
  exit.set_given_up(decision.give_up && CanDoWithout(job, key));
  const bool given_up = exit.given_up();
  NodeId node = replica.node;
  const PlacedSlot place = job.placed[replica.slot];
  Commit(std::move(record));
  if (counted && !done) BlameDevices(job.id, place, cause);
  if (given_up || !job.placed[replica.slot].placed() || !LeaveReason(job.placed[replica.slot]).empty()) {
    NodeChanged(node);
    place_again_ = true;
  }
  WorkerSoft& soft = Soft(life.path, decision.reason);
  soft.ready = soft.stop_sent = false;
  soft.pid = 0;
  soft.endpoint.clear();
  soft.remote_endpoint.clear();
  std::string actor = key.ToString();
  Log(job, "exited", decision.reason, actor + "#" + std::to_string(life.incarnation), node);
  if (given_up) {
    Log(job, "given_up", absl::StrCat(decision.reason, "; the job goes on without it"), actor, node);
  } else if (decision.give_up) {
    FailOrRetry(job, absl::StrCat(actor, " ", decision.reason), cause.status_code());
  } else if (gang != nullptr && !asked && !done) {
    RestartGang(job, GroupName(job.role(key.role)), absl::StrCat(actor, " ", CauseText(cause)));
  }
  dirty_.insert(job.id);
  job_views_.insert(job.id);
}

// Granted by a head that ended, or on a stream that broke, before the node got it. No failure of the worker's.
void Cluster::RecordNeverStarted(const ActorLife& life) {
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::NODE_LOST);
  cause.set_text("its node never got it or does not know it any more");
  RecordExit(life, cause);
}

void Cluster::EndNode(const NodeId& id, const std::string& reason) {
  std::vector<ActorLife> lost;
  std::set<JobId> jobs = state_.FindNode(id)->jobs;
  for (const JobId& job_id : jobs) {
    const JobRecord& job = *state_.FindJob(job_id);
    for (const auto& [key, replica] : job.replicas) {
      ActorLife life{{job_id, key.role, key.replica}, replica.incarnation};
      if (LivesOn(life, id)) lost.push_back(life);
    }
  }
  v1::Record record;
  record.mutable_node_ended()->set_node_id(id.value());
  record.mutable_node_ended()->set_node_incarnation(state_.FindNode(id)->incarnation);
  record.mutable_node_ended()->set_reason(reason);
  Commit(std::move(record));
  v1::ExitCause cause;
  cause.set_kind(v1::ExitCause::NODE_LOST);
  cause.set_text(absl::StrCat("node ", id.value(), ": ", reason));
  for (const JobId& job_id : jobs) Log(*state_.FindJob(job_id), "node_lost", reason, "", id);
  for (const ActorLife& life : lost) RecordExit(life, cause);
  dirty_.insert(jobs.begin(), jobs.end());
  if (SessionId session = nodes_[id].session; session != 0) {
    sessions_.erase(session);
    Act(CloseSession{session, absl::AbortedError(absl::StrCat("stale epoch: the node's incarnation ended: ", reason))});
  }
  nodes_.erase(id);
  empty_.Remove(id);
  NodeChanged(id);
}

void Cluster::CheckLeases() {
  std::vector<NodeId> lost;
  for (auto& [id, node] : nodes_) {
    NodeLiveness liveness = node.lease.At(now_.monotonic);
    if (liveness == NodeLiveness::kLost) lost.push_back(id);
    bool suspect = liveness == NodeLiveness::kSuspect;
    if (suspect != node.suspect) NodeChanged(id);
    if (std::exchange(node.suspect, suspect) && !suspect && node.usable()) NodeBecameUsable(id);
  }
  for (const NodeId& id : lost) {
    EndNode(id, absl::StrCat("no heartbeat for ", absl::FormatDuration(options_.lease)));
  }
  lease_wake_ = Monotonic::Infinite();
  for (const auto& [id, node] : nodes_) lease_wake_ = std::min(lease_wake_, node.lease.NextChange(now_.monotonic));
}

// A head that was stopped (a signal, a suspended machine) heard nothing: that says nothing about its nodes.
void Cluster::ForgiveStall() {
  absl::Duration gap = now_.monotonic - last_step_;
  if (gap <= options_.lease / 2) return;
  for (auto& [id, node] : nodes_) node.lease.Forgive(gap);
}

void Cluster::NodeBecameUsable(const NodeId& id) {
  place_again_ = true;
  const std::set<JobId>& jobs = state_.FindNode(id)->jobs;
  dirty_.insert(jobs.begin(), jobs.end());
  NodeChanged(id);
}

}  // namespace troupe::scheduler
