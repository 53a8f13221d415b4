// SPDX-License-Identifier: Apache-2.0
// Cluster: what readers see. A view is built in the step that changed it and leaves when that step is durable.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core/cluster.h"

namespace troupe::scheduler {
namespace {

void AddGroups(const JobRecord& job, v1::Job& view) {
  for (const auto& [name, group] : job.groups) {
    v1::Group& shown = *view.add_groups();
    shown.set_job_id(job.id.value());
    shown.set_name(name);
    shown.set_policy(group.policy);
    if (group.policy == v1::ALL_FOR_ONE) shown.set_generation(group.generation);
    shown.set_reason(group.reason);
    for (const std::string& role : group.roles) {
      const ReplicaBounds bounds = BoundsOf(job.role(role));
      shown.add_roles(role);
      shown.set_wanted(shown.wanted() + job.wanted.at(role));
      shown.set_min_replicas(shown.min_replicas() + bounds.min);
      shown.set_max_replicas(std::min(shown.max_replicas() + bounds.max, kReplicasMax));
    }
  }
}

}  // namespace

void Cluster::Publish() {
  for (const auto& [id, keys] : std::exchange(actor_views_, {})) {
    const JobRecord* job = state_.FindJob(id);
    if (job == nullptr) continue;
    PublishActors publish{id.value(), {}};
    for (const ReplicaKey& key : keys) publish.actors.push_back(ActorView(*job, key));
    Act(std::move(publish));
  }
  for (const JobId& id : std::exchange(job_views_, {})) {
    const JobRecord* job = state_.FindJob(id);
    if (job != nullptr) NoticeState(*job);
    Act(PublishJob{id.value(), job == nullptr ? nullptr : std::make_shared<const v1::Job>(JobView(*job))});
  }
  const std::map<NodeId, std::vector<HeldDevices>> held = DeviceHolders(node_views_);
  for (const NodeId& id : std::exchange(node_views_, {})) {
    auto holders = held.find(id);
    bool known = state_.FindNode(id) != nullptr;
    auto node = nodes_.find(id);
    auto view = !known ? nullptr
                       : std::make_shared<const v1::Node>(
                             NodeView(id, holders == held.end() ? std::vector<HeldDevices>() : holders->second));
    Act(PublishNode{id.value(), std::move(view), node == nodes_.end() ? Monotonic() : node->second.lease.heard()});
  }
}

void Cluster::NoticeState(const JobRecord& job) {
  JobSoft& soft = jobs_.at(job.id);
  const v1::JobState state = StateOf(job);
  if (state == v1::JOB_RUNNING && AllUp(job)) soft.ran = true;
  if (state == soft.state) return;
  soft.state = state;
  soft.since_unix_ms = now_.unix_ms;
}

v1::JobState Cluster::StateOf(const JobRecord& job) const {
  switch (job.phase) {
    case v1::StoredJob::WAITING:
      return v1::JOB_PENDING;
    case v1::StoredJob::REQUEUEING:
      return v1::JOB_RECOVERING;
    case v1::StoredJob::ENDING:
      return v1::JOB_STOPPING;
    case v1::StoredJob::ENDED:
      return job.ending.end_state();
    default:
      break;
  }
  const JobSoft& soft = jobs_.at(job.id);
  // A controller says by its progress that the job is under way, also before the last worker is up.
  if (AllUp(job)) return !job.has_controller() || soft.progress ? v1::JOB_RUNNING : v1::JOB_STARTING;
  return soft.ran ? v1::JOB_RECOVERING : soft.progress ? v1::JOB_RUNNING : v1::JOB_STARTING;
}

bool Cluster::AllUp(const JobRecord& job) const {
  const bool whole = !job.lacks_slots();
  return std::all_of(job.replicas.begin(), job.replicas.end(), [&](const auto& r) {
    auto worker = workers_.find({job.id, r.first.role, r.first.replica});
    if (r.second.over() || (whole && !r.second.live && !job.placed[r.second.slot].placed())) return true;
    return r.second.live && worker != workers_.end() && worker->second.ready;
  });
}

v1::Job Cluster::JobView(const JobRecord& job) const {
  v1::Job view;
  view.set_job_id(job.id.value());
  *view.mutable_spec() = job.spec();
  for (v1::RoleSpec& role : *view.mutable_spec()->mutable_roles()) role.set_replicas(job.wanted.at(role.role()));
  view.set_state(StateOf(job));
  const JobSoft& soft = jobs_.at(job.id);
  view.set_since_unix_ms(soft.since_unix_ms);
  bool ends = job.phase == v1::StoredJob::ENDING || job.ended();
  view.set_reason(ends                                     ? job.ending.reason()
                  : job.phase == v1::StoredJob::REQUEUEING ? job.requeue_reason
                                                           : soft.reason);
  AddGroups(job, view);
  view.set_order(job.submitted.order());
  view.set_submitted_unix_ms(job.submitted.submitted_unix_ms());
  view.set_ended_unix_ms(job.ended_unix_ms);
  if (soft.progress) *view.mutable_progress() = *soft.progress;
  view.set_summary_json(job.ending.summary_json());
  view.set_stop_requested(job.stop_requested());
  view.set_retries(job.retries);
  view.set_interrupted(job.ending.interrupted());
  view.set_error_code(job.ending.error_code());
  return view;
}

v1::Actor Cluster::ActorView(const JobRecord& job, const ReplicaKey& key) const {
  const Replica& replica = job.replicas.at(key);
  ActorPath path{job.id, key.role, key.replica};
  auto found = workers_.find(path);
  const WorkerSoft soft = found == workers_.end() ? WorkerSoft{} : found->second;
  v1::Actor view;
  *view.mutable_address()->mutable_actor() = ActorLife{path, replica.incarnation}.ToProto();
  view.mutable_address()->set_node_id(replica.node.value());
  view.set_restarts(replica.restarts());
  view.set_reason(soft.reason);
  view.set_since_unix_ms(soft.since_unix_ms);
  if (replica.last_exit.kind() != v1::ExitCause::KIND_UNSPECIFIED) *view.mutable_last_exit() = replica.last_exit;
  if (replica.live) {
    view.mutable_address()->set_pid(soft.pid);
    view.mutable_address()->set_endpoint(soft.endpoint);
    view.mutable_address()->set_remote_endpoint(soft.remote_endpoint);
    view.set_state(soft.stop_sent ? v1::ACTOR_STOPPING : soft.ready ? v1::ACTOR_READY : v1::ACTOR_STARTING);
  } else {
    if (view.reason().empty() && job.phase == v1::StoredJob::PLACED && job.wants_place(replica.slot)) {
      view.set_reason("waits for a place");
    }
    bool over = replica.over() || job.ended() || job.phase == v1::StoredJob::ENDING;
    view.set_state(over ? v1::ACTOR_DEAD : v1::ACTOR_PENDING);
  }
  return view;
}

v1::Node Cluster::NodeView(const NodeId& id, const std::vector<HeldDevices>& held) const {
  const NodeRecord& record = *state_.FindNode(id);
  v1::Node view;
  view.set_node_id(id.value());
  view.set_incarnation(record.incarnation);
  auto found = nodes_.find(id);
  view.set_draining(record.draining());
  if (record.draining())
    view.set_reason(absl::StrCat("drained", record.drain_reason.empty() ? "" : ": ", record.drain_reason));
  if (found == nodes_.end()) {
    view.set_state("lost");
    if (!record.draining()) view.set_reason(record.end_reason);
    return view;
  }
  const NodeSoft& node = found->second;
  view.set_state(!node.registered || !node.unknown.empty() ? "reconciling"
                 : node.suspect                            ? "suspect"
                 : node.session == 0                       ? "disconnected"
                 : !record.draining()                      ? "ready"
                 : record.jobs.empty()                     ? "drained"
                                                           : "draining");
  *view.mutable_total() = node.total.ToProto();
  Amount used{.milli_cpus = record.used_milli_cpus, .memory_bytes = record.used_memory_bytes};
  used.devices = static_cast<int32_t>(record.device_used.size());
  *view.mutable_used() = used.ToProto();
  view.set_version(node.info.version());
  view.set_address(node.info.agent_endpoint());
  *view.mutable_labels() = node.info.labels();
  *view.mutable_total()->mutable_custom() = node.info.resources().custom();
  ShowDevices(record, node, held, view);
  return view;
}

}  // namespace troupe::scheduler
