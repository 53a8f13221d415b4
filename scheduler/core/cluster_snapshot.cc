// SPDX-License-Identifier: Apache-2.0
// ClusterState to and from its snapshot. What is derived (slots, use of nodes) is computed again.
#include "scheduler/core/cluster_state.h"

namespace troupe::scheduler {
namespace {

v1::StoredReplica ToStored(const ReplicaKey& key, const Replica& replica) {
  v1::StoredReplica stored;
  stored.set_role(key.role);
  stored.set_replica(key.replica);
  stored.set_incarnation(replica.incarnation);
  stored.set_live(replica.live);
  stored.set_done(replica.done);
  stored.set_node_id(replica.node.value());
  stored.set_node_incarnation(replica.node_incarnation);
  *stored.mutable_last_exit() = replica.last_exit;
  stored.set_restart_at_ms(replica.restart_at_ms);
  stored.mutable_failure_ms()->Add(replica.failure_ms.begin(), replica.failure_ms.end());
  stored.set_out_of_memory_ms(replica.out_of_memory_ms);
  stored.set_generation(replica.generation);
  stored.set_given_up(replica.given_up);
  return stored;
}

// But for what follows from its job: `replica` has its slot, and whether it is retired.
void FromStored(const v1::StoredReplica& stored, Replica& replica) {
  replica.incarnation = stored.incarnation();
  replica.live = stored.live();
  replica.done = stored.done();
  replica.node = NodeId(stored.node_id());
  replica.node_incarnation = stored.node_incarnation();
  replica.last_exit = stored.last_exit();
  replica.restart_at_ms = stored.restart_at_ms();
  replica.failure_ms.assign(stored.failure_ms().begin(), stored.failure_ms().end());
  replica.out_of_memory_ms = stored.out_of_memory_ms();
  replica.generation = stored.generation();
  replica.given_up = stored.given_up();
}

// What became of its groups and the number of its replicas.
void AddGroups(const JobRecord& job, v1::StoredJob& stored) {
  for (size_t i = job.slots_at_start; i < job.slots.size(); ++i) {
    v1::ActorId* added = stored.add_added_slots();
    added->set_role(job.slots[i].members[0].role);
    added->set_replica(job.slots[i].members[0].replica);
  }
  for (const v1::RoleSpec& role : job.spec().roles()) {
    const int wanted = job.wanted.at(role.role());
    if (wanted == ReplicasAtStart(role)) continue;
    v1::RoleScaled* scaled = stored.add_scaled();
    scaled->set_role(role.role());
    scaled->set_replicas(wanted);
  }
  for (size_t i = 0; i < job.placed.size(); ++i) {
    if (job.placed[i].optional) stored.add_optional_slots(static_cast<int32_t>(i));
  }
  for (const auto& [name, group] : job.groups) {
    if (group.generation == 1) continue;
    v1::GroupRestarting* restarted = stored.add_groups();
    restarted->set_group(name);
    restarted->set_generation(group.generation);
    restarted->set_reason(group.reason);
  }
}

v1::StoredJob ToStored(const JobRecord& job) {
  v1::StoredJob stored;
  *stored.mutable_submitted() = job.submitted;
  stored.set_phase(job.phase);
  if (job.stop_requested()) *stored.mutable_stop() = job.stop;
  stored.set_placed_at_ms(job.placed_at_ms);
  stored.set_ended_at_ms(job.ended_at_ms);
  stored.set_retries(job.retries);
  stored.set_placed_once(job.placed_once);
  stored.set_earliest_at_ms(job.earliest_at_ms);
  if (job.phase == v1::StoredJob::ENDING || job.ended()) *stored.mutable_ending() = job.ending;
  stored.set_ended_unix_ms(job.ended_unix_ms);
  for (size_t i = 0; i < job.placed.size(); ++i) {
    const PlacedSlot& placed = job.placed[i];
    if (!placed.placed()) continue;
    v1::SlotPlaced* slot = stored.add_slots();
    slot->set_slot(static_cast<int32_t>(i));
    slot->set_node_id(placed.node.value());
    slot->set_node_incarnation(placed.node_incarnation);
    slot->mutable_devices()->Add(placed.devices.begin(), placed.devices.end());
    slot->set_leaving(placed.leaving);
  }
  AddGroups(job, stored);
  for (const auto& [key, replica] : job.replicas) *stored.add_replicas() = ToStored(key, replica);
  return stored;
}

}  // namespace

v1::ClusterSnapshot ClusterState::ToSnapshot() const {
  v1::ClusterSnapshot snapshot;
  snapshot.set_term(term_);
  snapshot.set_at_ms(at_ms_);
  snapshot.set_last_order(last_order_);
  snapshot.set_last_node_incarnation(last_node_incarnation_);
  for (const auto& [id, node] : nodes_) {
    v1::StoredNode* stored = snapshot.add_nodes();
    stored->set_node_id(id.value());
    stored->set_node_incarnation(node.incarnation);
    stored->set_ended(node.ended);
    stored->set_end_reason(node.end_reason);
    stored->set_drain_deadline_at_ms(node.drain_deadline_ms);
    stored->set_drain_reason(node.drain_reason);
    for (const auto& [device, quarantine] : node.quarantined) {
      v1::DeviceQuarantined* quarantined = stored->add_quarantined();
      quarantined->set_device(device);
      quarantined->set_until_at_ms(quarantine.until_ms);
      quarantined->set_times(quarantine.times);
      quarantined->set_reason(quarantine.reason);
    }
  }
  for (const auto& [id, job] : jobs_) *snapshot.add_jobs() = ToStored(job);
  for (const auto& [name, queue] : queues_) *snapshot.add_queues() = queue;
  return snapshot;
}

ClusterState ClusterState::FromSnapshot(const v1::ClusterSnapshot& snapshot) {
  ClusterState state;
  for (const v1::StoredNode& stored : snapshot.nodes()) {
    NodeRecord& node = state.nodes_[NodeId(stored.node_id())];
    node.incarnation = stored.node_incarnation();
    node.ended = stored.ended();
    node.end_reason = stored.end_reason();
    node.drain_deadline_ms = stored.drain_deadline_at_ms();
    node.drain_reason = stored.drain_reason();
    for (const v1::DeviceQuarantined& q : stored.quarantined()) {
      node.quarantined[q.device()] = {q.until_at_ms(), q.times(), q.reason()};
    }
  }
  for (const v1::StoredJob& stored : snapshot.jobs()) {
    state.ApplySubmitted(stored.submitted());
    JobRecord& job = state.jobs_.at(JobId(stored.submitted().job_id()));
    job.phase = stored.phase();
    job.stop = stored.stop();
    if (stored.stop_requested()) job.stop.set_job_id(job.id.value());
    job.placed_at_ms = stored.placed_at_ms();
    job.ended_at_ms = stored.ended_at_ms();
    job.retries = stored.retries();
    job.placed_once = stored.placed_once();
    job.earliest_at_ms = stored.earliest_at_ms();
    job.ending = stored.ending();
    job.ended_unix_ms = stored.ended_unix_ms();
    RestoreGroups(stored, job);
    for (const v1::SlotPlaced& slot : stored.slots()) state.Place(job, slot);
    for (int32_t slot : stored.optional_slots()) job.placed.at(static_cast<size_t>(slot)).optional = true;
    if (job.placed_at_ms != 0) ++state.queue_use_[job.queue()].jobs;
    for (const v1::StoredReplica& replica : stored.replicas()) {
      FromStored(replica, job.replicas[{replica.role(), replica.replica()}]);
      job.live += replica.live();
    }
  }
  for (const v1::Queue& queue : snapshot.queues()) state.queues_[queue.name()] = queue;
  state.term_ = snapshot.term();
  state.at_ms_ = snapshot.at_ms();
  state.last_order_ = snapshot.last_order();
  state.last_node_incarnation_ = snapshot.last_node_incarnation();
  return state;
}

}  // namespace troupe::scheduler
