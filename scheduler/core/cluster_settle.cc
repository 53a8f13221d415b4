// SPDX-License-Identifier: Apache-2.0
// Cluster: what follows from the state. Jobs that changed are brought as far as they can go now.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/device_report.h"

namespace troupe::scheduler {

void Cluster::Settle() {
  while (!timers_.empty() && timers_.begin()->first <= ClusterMs()) {
    dirty_.insert(timers_.begin()->second);
    timers_.erase(timers_.begin());
  }
  while (!node_timers_.empty() && node_timers_.begin()->first <= ClusterMs()) {
    NodeChanged(node_timers_.begin()->second);
    node_timers_.erase(node_timers_.begin());
    place_again_ = true;
  }
  while (!dirty_.empty() || place_again_) {
    while (!dirty_.empty()) {
      JobId id = *dirty_.begin();
      dirty_.erase(dirty_.begin());
      SettleJob(id);
    }
    if (!std::exchange(place_again_, false)) continue;
    PlaceWaiting();
    MoveAway();
  }
  ForgetOldJobs();
  ForgetOldNodes();
}

void Cluster::SettleJob(const JobId& id) {
  const JobRecord* job = state_.FindJob(id);
  if (job == nullptr || job->ended()) return;
  if (job->stopping()) {
    waiting_.erase(id);
    growing_.erase(id);
    if (job->live > 0) return StopWorkers(*job);
    v1::Record record;
    if (job->phase == v1::StoredJob::ENDING) {
      record.mutable_job_ended()->set_job_id(id.value());
      record.mutable_job_ended()->set_ended_unix_ms(now_.unix_ms);
      Log(*job, "ended", absl::StrCat(v1::JobState_Name(job->ending.end_state()), ": every worker has exited"));
      for (CallId call : std::exchange(jobs_[id].cancels, {})) Reply(call, absl::OkStatus());
    } else {
      record.mutable_job_requeued()->set_job_id(id.value());
      dirty_.insert(id);
      jobs_[id].progress.reset();
      jobs_[id].ran = false;
      Log(*job, "requeued", job->requeue_reason);
    }
    Commit(std::move(record));
    if (job->ended()) NoticeEnd(*job);
    place_again_ = true;
    job_views_.insert(id);
    for (const auto& [key, replica] : job->replicas) Touch({id, key.role, key.replica});
    return;
  }
  if (IsHeld(*job)) {
    waiting_.erase(id);
  } else if (job->phase == v1::StoredJob::WAITING || job->lacks_slots()) {
    JobSoft& soft = jobs_[id];
    const bool search_again = soft.preempt_at_ms > 0 && soft.preempt_at_ms <= ClusterMs();
    if (search_again) soft.preempt_at_ms = 0;
    if (waiting_.insert(id).second || search_again) place_again_ = true;
  } else {
    waiting_.erase(id);
  }
  NoticeLack(*job);
  if (job->phase != v1::StoredJob::PLACED) return;
  if (job->stop.requeue() && !Later(job->stop.deadline_at_ms(), id)) {
    return Requeue(*job, absl::StrCat(job->stop.reason(), "; it did not reach a safe point in time"));
  }
  if (EndAtTimeLimit(*job)) return;
  StopWorkers(*job);
  if (job->all_done()) return EndJob(*job, v1::JOB_SUCCEEDED, "every worker has exited with 0");
  if (job->Growing().empty()) {
    growing_.erase(id);
  } else if (growing_.insert(id).second) {
    place_again_ = true;
  }
  GrantWorkers(*job);
}

// Whether that cluster time is still to come; then the job is settled again when it has.
bool Cluster::Later(int64_t at_ms, const JobId& id) {
  if (at_ms <= ClusterMs()) return false;
  timers_.insert({at_ms, id});
  return true;
}

void Cluster::NoticeLack(const JobRecord& job) {
  int64_t& since = jobs_[job.id].lacks_since_ms;
  if (!job.lacks_slots()) {
    since = 0;
  } else if (since == 0) {
    since = ClusterMs();
    timers_.insert({since + kHalfLostPatienceMs, job.id});
  } else if (ClusterMs() >= since + kHalfLostPatienceMs) {
    place_again_ = true;
  }
}

// All of a job that stops; of another one those that give up their places and those of a group that starts anew.
void Cluster::StopWorkers(const JobRecord& job) {
  int64_t grace = job.spec().stop_grace_ms() > 0 ? job.spec().stop_grace_ms() : options_.stop_grace_ms;
  if (jobs_[job.id].grace_ms > 0) grace = jobs_[job.id].grace_ms;
  for (const auto& [key, replica] : job.replicas) {
    const std::string reason = job.phase == v1::StoredJob::ENDING       ? job.ending.reason()
                               : job.phase == v1::StoredJob::REQUEUEING ? job.requeue_reason
                                                                        : job.StopReason(key, replica);
    if (!replica.live || (reason.empty() && !job.stopping())) continue;
    ActorPath path{job.id, key.role, key.replica};
    auto node = nodes_.find(replica.node);
    // A node that is away is told when it registers again.
    if (node == nodes_.end() || node->second.session == 0 || workers_[path].stop_sent) continue;
    v1::HeadToAgent message;
    v1::StopWorker& stop = *message.mutable_stop_worker();
    *stop.mutable_actor() = ActorLife{path, replica.incarnation}.ToProto();
    stop.set_grace_ms(grace);
    stop.set_reason(reason);
    stop.set_term(term());
    Send(node->second.session, std::move(message));
    Soft(path, absl::StrCat("stopping: ", reason)).stop_sent = true;
  }
}

void Cluster::GrantWorkers(const JobRecord& job) {
  const std::set<std::string> waiting = RolesThatWait(job);
  for (size_t i = 0; i < job.slots.size(); ++i) {
    const PlacedSlot& slot = job.placed[i];
    if (!MayGrantOn(slot)) continue;
    for (const ReplicaKey& key : job.slots[i].members) {
      const Replica& replica = job.replicas.at(key);
      if (replica.live || replica.over() || waiting.contains(key.role)) continue;
      if (Later(replica.restart_at_ms, job.id)) continue;
      Grant(job, key, slot);
    }
  }
}

void Cluster::Grant(const JobRecord& job, const ReplicaKey& key, const PlacedSlot& slot) {
  const Replica& replica = job.replicas.at(key);
  ActorLife life{{job.id, key.role, key.replica}, replica.incarnation + 1};
  v1::Record record;
  v1::WorkerGranted& granted = *record.mutable_worker_granted();
  *granted.mutable_actor() = life.ToProto();
  granted.set_node_id(slot.node.value());
  granted.set_node_incarnation(slot.node_incarnation);
  Commit(std::move(record));

  v1::HeadToAgent message;
  v1::StartWorker& start = *message.mutable_start_worker();
  *start.mutable_actor() = life.ToProto();
  *start.mutable_role() = job.role(key.role);
  start.mutable_role()->set_replicas(job.wanted.at(key.role));
  start.set_group_generation(replica.generation);
  start.set_output_dir(job.spec().output_dir());
  start.set_config_json(job.spec().config_json());
  start.set_hang_timeout_ms(job.spec().hang_timeout_ms() > 0 ? job.spec().hang_timeout_ms() : options_.hang_timeout_ms);
  start.set_term(term());
  start.set_attempt(replica.restarts());
  start.mutable_device_indices()->Add(slot.devices.begin(), slot.devices.end());
  Send(nodes_.at(slot.node).session, std::move(message));

  std::string why = replica.restarts() == 0
                        ? std::string("started")
                        : absl::StrCat("restart ", replica.restarts(), " after: ", workers_[life.path].reason);
  WorkerSoft& soft = Soft(life.path, why);
  soft.ready = soft.stop_sent = false;
  Log(job, replica.restarts() == 0 ? "started" : "restarted", why,
      key.ToString() + "#" + std::to_string(life.incarnation), slot.node);
  job_views_.insert(job.id);
}

// `tell`: its reason is wanted when it does not fit.
bool Cluster::TryPlace(const JobRecord& job, bool tell) {
  std::string why_not;
  const char* event = job.phase == v1::StoredJob::PLACED ? "re-placed" : "placed";
  if (PlaceSlots(job, job.Lacking(false), event, tell ? &why_not : nullptr)) return true;
  if (tell) {
    Wait(job, nodes_.empty()  ? "no node has joined yet"
              : free_.empty() ? "no node is ready yet"
                              : "waits for resources: " + why_not);
  }
  return false;
}

// The nodes that a job has for itself take more of its own replicas, and only those.
void Cluster::OpenNodesOf(const JobRecord& job, bool open) {
  const bool exclusive = std::any_of(job.slots.begin(), job.slots.end(), [](const Slot& slot) {
    return slot.rule != nullptr && slot.rule->exclusive_nodes;
  });
  if (!exclusive) return;
  for (const PlacedSlot& placed : job.placed) {
    auto node = nodes_.find(placed.node);
    if (!placed.placed() || node == nodes_.end() || !TakesWork(placed.node)) continue;
    NodeCapacity capacity = FreeOn(placed.node, node->second);
    capacity.taken_alone = capacity.taken_alone && !open;
    free_.Set(std::move(capacity));
  }
}

// All of them or none.
bool Cluster::PlaceSlots(const JobRecord& job, const std::vector<size_t>& numbers, const char* event,
                         std::string* why_not) {
  std::vector<Slot> lacking;
  for (size_t number : numbers) lacking.push_back(job.slots[number]);
  OpenNodesOf(job, true);
  PlacementResult result = PlaceAndTake(lacking, free_, job.Kept());
  if (result.verdict != PlacementVerdict::kPlaced) OpenNodesOf(job, false);
  if (result.verdict != PlacementVerdict::kPlaced) {
    if (why_not != nullptr) *why_not = result.reason;
    return false;
  }
  v1::Record record;
  record.mutable_job_placed()->set_job_id(job.id.value());
  for (const SlotPlacement& p : result.placements) {
    v1::SlotPlaced* slot = record.mutable_job_placed()->add_slots();
    slot->set_slot(static_cast<int32_t>(numbers[static_cast<size_t>(p.slot)]));
    slot->set_node_id(p.node.value());
    slot->set_node_incarnation(state_.FindNode(p.node)->incarnation);
    slot->mutable_devices()->Add(p.devices.begin(), p.devices.end());
    const Slot& what = lacking[static_cast<size_t>(p.slot)];
    Log(job, event, what.need.ToString(), what.ToString(), p.node);
    node_views_.insert(p.node);
  }
  Commit(std::move(record));
  for (const SlotPlacement& p : result.placements) {
    free_.SetJobs(p.node, static_cast<int>(state_.FindNode(p.node)->jobs.size()));
  }
  OpenNodesOf(job, false);
  jobs_[job.id].reason.clear();
  job_views_.insert(job.id);
  return true;
}

void Cluster::Wait(const JobRecord& job, const std::string& reason) {
  JobSoft& soft = jobs_[job.id];
  if (soft.reason == reason) return;
  Log(job, "waiting", reason);
  job_views_.insert(job.id);
  soft.reason = reason;
}

void Cluster::NodeChanged(const NodeId& id) {
  node_views_.insert(id);
  stale_nodes_.insert(id);
}

void Cluster::RefreshFree() {
  for (const NodeId& id : std::exchange(stale_nodes_, {})) {
    if (!TakesWork(id)) {
      free_.Remove(id);
    } else {
      free_.Set(FreeOn(id, nodes_.at(id)));
    }
  }
}

std::string Cluster::StaleIndex() {
  RefreshFree();
  Monotonic wake = Monotonic::Infinite();
  std::vector<NodeCapacity> free, empty;
  for (const auto& [id, node] : nodes_) {
    wake = std::min(wake, node.lease.NextChange(last_step_));
    if (TakesWork(id)) free.push_back(FreeOn(id, node));
    if (node.registered) empty.push_back(CapacityOf(id, node, nullptr));
  }
  if (free != free_.All()) return "IDX-1: what is free is indexed";
  if (empty != empty_.All()) return "IDX-2: what nodes have is indexed";
  return lease_wake_ <= wake ? "" : "IDX-3: no lease changes before the wake";
}

NodeCapacity Cluster::FreeOn(const NodeId& id, const NodeSoft& node) const {
  NodeCapacity capacity = CapacityOf(id, node, state_.FindNode(id));
  WithholdFailedDevices(node.info, capacity);
  const NodeRecord& record = *state_.FindNode(id);
  for (const auto& [device, quarantine] : record.quarantined) {
    const bool counts = device < node.total.devices && !DeviceFailed(id, device);
    if (counts && !record.Distrust(device, ClusterMs()).empty()) {
      capacity.device_used[static_cast<size_t>(device)] += kSharesPerDevice;
    }
  }
  return capacity;
}

NodeCapacity Cluster::CapacityOf(const NodeId& id, const NodeSoft& node, const NodeRecord* used) {
  NodeCapacity capacity{.node = id, .total = node.total, .facts = node.facts};
  capacity.device_used.resize(static_cast<size_t>(node.total.devices));
  if (used == nullptr) return capacity;
  capacity.used_milli_cpus = used->used_milli_cpus;
  capacity.used_memory_bytes = used->used_memory_bytes;
  for (const auto& [device, shares] : used->device_used) {
    // A node that came back with fewer devices keeps what was granted.
    if (device < node.total.devices) capacity.device_used[static_cast<size_t>(device)] = shares;
  }
  capacity.device_memory_used = used->device_memory_used;
  capacity.custom_used = used->custom_used;
  capacity.jobs = static_cast<int>(used->jobs.size());
  capacity.taken_alone = !used->alone.empty();
  return capacity;
}

void Cluster::ForgetOldJobs() {
  const int64_t young_since_ms = ClusterMs() - options_.ended_job_age_ms_max;
  size_t needed = 0;  // Of the oldest ones; they are kept.
  while (ended_jobs_.size() > needed) {
    auto oldest = std::next(ended_jobs_.begin(), static_cast<std::ptrdiff_t>(needed));
    if (ended_jobs_.size() - needed <= options_.ended_jobs_max && oldest->first > young_since_ms) return;
    JobId id = oldest->second;
    if (IsNeeded(id)) {
      if (++needed > kNeededJobsLookedAtMax) return;
      continue;
    }
    ended_jobs_.erase(oldest);
    dependents_.erase(id);
    v1::Record record;
    record.mutable_job_forgotten()->set_job_id(id.value());
    for (const auto& [key, replica] : state_.FindJob(id)->replicas) workers_.erase({id, key.role, key.replica});
    Commit(std::move(record));
    jobs_.erase(id);
    actor_views_.erase(id);
    job_views_.insert(id);
  }
}

void Cluster::ForgetOldNodes() {
  while (state_.nodes().size() > nodes_.size() + options_.ended_nodes_max) {
    const std::pair<const NodeId, NodeRecord>* oldest = nullptr;
    for (const auto& entry : state_.nodes()) {
      if (entry.second.ended && (oldest == nullptr || entry.second.incarnation < oldest->second.incarnation)) {
        oldest = &entry;
      }
    }
    if (oldest == nullptr) return;
    NodeId id = oldest->first;
    v1::Record record;
    record.mutable_node_forgotten()->set_node_id(id.value());
    draining_.erase(id);
    distrusted_.erase(id);
    Commit(std::move(record));
    node_views_.insert(id);
  }
}

}  // namespace troupe::scheduler
