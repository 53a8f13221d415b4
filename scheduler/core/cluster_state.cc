// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/cluster_state.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "scheduler/core/restart_policy.h"

namespace troupe::scheduler {
namespace {

ReplicaKey KeyOf(const v1::ActorIncarnation& actor) { return {actor.id().role(), actor.id().replica()}; }

}  // namespace

bool JobRecord::has_controller() const {
  return std::any_of(spec().roles().begin(), spec().roles().end(),
                     [](const v1::RoleSpec& role) { return role.role() == "controller"; });
}

const std::string& JobRecord::queue() const {
  static const std::string kDefault = kDefaultQueue;
  return spec().queue().empty() ? kDefault : spec().queue();
}

const v1::RoleSpec& JobRecord::role(const std::string& name) const {
  for (const v1::RoleSpec& role : spec().roles()) {
    if (role.role() == name) return role;
  }
  TROUPE_CHECK(false, "JOB-2: a replica's role is one of its job");
}

void ClusterState::Apply(const v1::Record& record) {
  at_ms_ = std::max(at_ms_, record.at_ms());
  switch (record.record_case()) {
    case v1::Record::kTermStarted:
      TROUPE_CHECK(record.term_started().term() > term_, "INC-1: terms only grow");
      term_ = record.term_started().term();
      return;
    case v1::Record::kJobSubmitted:
      return ApplySubmitted(record.job_submitted());
    case v1::Record::kJobPlaced:
      return ApplyPlaced(record.job_placed(), record.at_ms());
    case v1::Record::kWorkerGranted:
      return ApplyGranted(record.worker_granted(), record.at_ms());
    case v1::Record::kWorkerExitRecorded:
      return ApplyExit(record.worker_exit_recorded(), record.at_ms());
    case v1::Record::kNodeGranted:
      return ApplyNodeGranted(record.node_granted());
    case v1::Record::kNodeEnded:
      return ApplyNodeEnded(record.node_ended());
    case v1::Record::kJobStopRequested:
      Job(record.job_stop_requested().job_id()).stop = record.job_stop_requested();
      return;
    case v1::Record::kJobEnding:
      return ApplyEnding(record.job_ending());
    case v1::Record::kJobEnded: {
      JobRecord& job = Job(record.job_ended().job_id());
      TROUPE_CHECK(job.phase == v1::StoredJob::ENDING && job.live == 0, "END-1: an ended job has no live worker");
      ReleaseSlots(job);
      job.phase = v1::StoredJob::ENDED;
      job.ended_unix_ms = record.job_ended().ended_unix_ms();
      job.ended_at_ms = record.at_ms();
      return;
    }
    case v1::Record::kJobRequeueing:
      return ApplyRequeueing(record.job_requeueing());
    case v1::Record::kJobRequeued:
      return ApplyRequeued(Job(record.job_requeued().job_id()));
    case v1::Record::kJobForgotten: {
      const JobRecord& job = Job(record.job_forgotten().job_id());
      TROUPE_CHECK(job.ended(), "END-2: only an ended job is forgotten");
      requests_.erase(job.submitted.request_id());
      jobs_.erase(JobId(record.job_forgotten().job_id()));
      return;
    }
    case v1::Record::kQueueSet:
      queues_[record.queue_set().queue().name()] = record.queue_set().queue();
      return;
    case v1::Record::kNodeForgotten:
      nodes_.erase(NodeId(record.node_forgotten().node_id()));
      return;
    case v1::Record::kRoleScaled:
      return ApplyScaled(record.role_scaled());
    case v1::Record::kGroupRestarting:
      return ApplyGroupRestarting(record.group_restarting());
    case v1::Record::kNodeDrained:
      return ApplyDrained(record.node_drained());
    case v1::Record::kDeviceQuarantined:
      return ApplyQuarantined(record.device_quarantined());
    case v1::Record::kReplicaMoving:
      return ApplyMoving(record.replica_moving());
    case v1::Record::RECORD_NOT_SET:
      break;
  }
  TROUPE_CHECK(false, "LOG-1: every record is of a known kind (was the store written by a newer version?)");
}

const JobRecord* ClusterState::FindJob(const JobId& id) const {
  auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

const NodeRecord* ClusterState::FindNode(const NodeId& id) const {
  auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

const Replica* ClusterState::FindReplica(const ActorPath& path) const {
  const JobRecord* job = FindJob(path.job);
  if (job == nullptr) return nullptr;
  auto it = job->replicas.find({path.role, path.replica});
  return it == job->replicas.end() ? nullptr : &it->second;
}

const JobRecord* ClusterState::FindRequest(const std::string& request_id) const {
  auto it = requests_.find(request_id);
  return it == requests_.end() ? nullptr : FindJob(it->second);
}

void ClusterState::ApplySubmitted(const v1::JobSubmitted& record) {
  JobRecord job;
  job.id = JobId(record.job_id());
  job.submitted = record;
  job.slots = SlotsOf(record.spec());
  job.slots_at_start = job.slots.size();
  job.placed.resize(job.slots.size());
  for (size_t i = 0; i < job.slots.size(); ++i) {
    for (const ReplicaKey& member : job.slots[i].members) job.replicas[member].slot = i;
  }
  job.groups = GroupsOf(record.spec());
  for (const v1::RoleSpec& role : record.spec().roles()) job.wanted[role.role()] = ReplicasAtStart(role);
  TROUPE_CHECK(!jobs_.contains(job.id), "JOB-4: a job id is given once");
  last_order_ = std::max(last_order_, record.order());
  if (!record.request_id().empty()) requests_[record.request_id()] = job.id;
  JobId id = job.id;
  jobs_.emplace(id, std::move(job));
}

void ClusterState::ApplyPlaced(const v1::JobPlaced& record, int64_t at_ms) {
  JobRecord& job = Job(record.job_id());
  TROUPE_CHECK(job.phase == v1::StoredJob::WAITING || job.phase == v1::StoredJob::PLACED,
               "JOB-1: only what lacks slots is placed");
  for (const v1::SlotPlaced& slot : record.slots()) {
    CheckPlace(NodeId(slot.node_id()), {slot.devices().begin(), slot.devices().end()}, at_ms);
    Place(job, slot);
  }
  job.placed_once = true;
  if (job.phase == v1::StoredJob::WAITING) {
    job.placed_at_ms = at_ms;
    ++queue_use_[job.queue()].jobs;
  }
  job.phase = v1::StoredJob::PLACED;
  TROUPE_CHECK(!job.lacks_slots(), "JOB-1: a job is placed with all its slots or not at all");
}

void ClusterState::Place(JobRecord& job, const v1::SlotPlaced& slot) {
  PlacedSlot& placed = job.placed.at(static_cast<size_t>(slot.slot()));
  NodeRecord& node = nodes_[NodeId(slot.node_id())];
  TROUPE_CHECK(!placed.placed(), "DEV-1: a slot that holds a node is not placed again");
  TROUPE_CHECK(!node.ended && node.incarnation == slot.node_incarnation(), "INC-2: slots lie on living nodes");
  placed = {
      NodeId(slot.node_id()), slot.node_incarnation(), {slot.devices().begin(), slot.devices().end()}, slot.leaving()};
  const Amount& need = job.slots[static_cast<size_t>(slot.slot())].need;
  node.Use(need, placed.devices, 1);
  node.jobs.insert(job.id);
  const std::shared_ptr<const PlacementRule>& rule = job.slots[static_cast<size_t>(slot.slot())].rule;
  if (rule != nullptr && rule->exclusive_nodes) node.alone = job.id;
  TROUPE_CHECK(node.alone.empty() || node.jobs.size() == 1, "EXCL-1: on a job's node of its own there is no other");
  queue_use_[job.queue()].Add(need, 1);
}

void NodeRecord::Use(const Amount& need, const std::vector<int>& devices, int sign) {
  used_milli_cpus += sign * need.milli_cpus;
  used_memory_bytes += sign * need.memory_bytes;
  for (int device : devices) {
    int32_t& used = device_used[device];
    used += sign * (need.devices > 0 ? kSharesPerDevice : need.device_shares);
    TROUPE_CHECK(used <= kSharesPerDevice, "DEV-1: a device (its share) has at most one live owner");
    if (used == 0) device_used.erase(device);
    if (need.device_memory_bytes == 0) continue;
    int64_t& memory = device_memory_used[device];
    memory += sign * need.device_memory_bytes;
    if (memory == 0) device_memory_used.erase(device);
  }
  for (const auto& [name, amount] : need.custom) {
    int64_t& used = custom_used[name];
    used += sign * amount;
    if (used == 0) custom_used.erase(name);
  }
}

// Its node goes on listing the job: it may hold another slot there.
void ClusterState::ReleaseSlot(JobRecord& job, size_t slot) {
  PlacedSlot& placed = job.placed[slot];
  NodeRecord& node = nodes_[placed.node];
  const Amount& need = job.slots[slot].need;
  node.Use(need, placed.devices, -1);
  queue_use_[job.queue()].Add(need, -1);
  const bool optional = placed.optional;
  placed = {};
  placed.optional = optional;
}

void ClusterState::Leave(const JobId& job, NodeRecord& node) {
  node.jobs.erase(job);
  if (node.alone == job) node.alone = JobId();
}

void ClusterState::ReleaseSlots(JobRecord& job) {
  for (size_t i = 0; i < job.placed.size(); ++i) {
    if (!job.placed[i].placed()) continue;
    Leave(job.id, nodes_[job.placed[i].node]);
    ReleaseSlot(job, i);
  }
  if (std::exchange(job.placed_at_ms, 0) != 0) --queue_use_[job.queue()].jobs;
}

void ClusterState::ApplyGranted(const v1::WorkerGranted& record, int64_t at_ms) {
  JobRecord& job = Job(record.actor().id().job_id());
  Replica& replica = job.replicas.at(KeyOf(record.actor()));
  TROUPE_CHECK(job.phase == v1::StoredJob::PLACED, "JOB-1: workers are granted to placed jobs only");
  TROUPE_CHECK(!replica.live, "INC-3: a replica has at most one live incarnation");
  TROUPE_CHECK(record.actor().incarnation() > replica.incarnation, "INC-1: incarnations only grow");
  const PlacedSlot& slot = job.placed[replica.slot];
  TROUPE_CHECK(slot.leaving.empty() && !replica.retired, "SCALE-1: what is given up is not granted again");
  CheckPlace(slot.node, slot.devices, at_ms);
  const Group* gang = job.gang(record.actor().id().role());
  replica.generation = gang == nullptr ? 0 : gang->generation;
  replica.incarnation = record.actor().incarnation();
  replica.live = true;
  replica.node = NodeId(record.node_id());
  replica.node_incarnation = record.node_incarnation();
  ++job.live;
}

void ClusterState::ApplyExit(const v1::WorkerExitRecorded& record, int64_t at_ms) {
  JobRecord& job = Job(record.actor().id().job_id());
  Replica& replica = job.replicas.at(KeyOf(record.actor()));
  TROUPE_CHECK(replica.live && replica.incarnation == record.actor().incarnation(),
               "INC-4: the living one exits, once");
  replica.live = false;
  --job.live;
  replica.done = record.done();
  replica.last_exit = record.cause();
  replica.restart_at_ms = record.restart_at_ms();
  replica.given_up = replica.given_up || record.given_up();
  const bool leaves = replica.given_up || !job.placed[replica.slot].leaving.empty();
  if (leaves && job.placed[replica.slot].placed() && !job.any_live(replica.slot)) GiveUpSlot(job, replica.slot);
  if (!record.counted()) return;
  AddFailure(RestartLimits::FromProto(job.role(record.actor().id().role())), at_ms, replica.failure_ms);
  if (record.cause().kind() == v1::ExitCause::OUT_OF_MEMORY) replica.out_of_memory_ms = at_ms;
}

void ClusterState::ApplyNodeGranted(const v1::NodeGranted& record) {
  NodeRecord& node = nodes_[NodeId(record.node_id())];
  TROUPE_CHECK(record.node_incarnation() > last_node_incarnation_, "INC-1: incarnations only grow");
  TROUPE_CHECK(node.incarnation == 0 || node.ended, "INC-3: a node has at most one living incarnation");
  last_node_incarnation_ = record.node_incarnation();
  node.Clear(last_node_incarnation_);
}

void ClusterState::ApplyNodeEnded(const v1::NodeEnded& record) {
  NodeRecord& node = nodes_[NodeId(record.node_id())];
  TROUPE_CHECK(!node.ended && node.incarnation == record.node_incarnation(), "INC-4: the living one ends, once");
  for (const JobId& id : node.jobs) {
    JobRecord& job = jobs_.at(id);
    for (size_t i = 0; i < job.placed.size(); ++i) {
      if (job.placed[i].node.value() == record.node_id()) ReleaseSlot(job, i);
    }
  }
  node.Clear(node.incarnation);
  node.ended = true;
  node.end_reason = record.reason();
}

void ClusterState::ApplyEnding(const v1::JobEnding& record) {
  JobRecord& job = Job(record.job_id());
  TROUPE_CHECK(job.phase != v1::StoredJob::ENDING && !job.ended(), "END-3: the end of a job is decided once");
  job.ending = record;
  job.phase = v1::StoredJob::ENDING;
}

void ClusterState::ApplyRequeueing(const v1::JobRequeueing& record) {
  JobRecord& job = Job(record.job_id());
  TROUPE_CHECK(job.phase == v1::StoredJob::PLACED, "JOB-3: only a placed job is sent back to the queue");
  job.phase = v1::StoredJob::REQUEUEING;
  job.requeue_reason = record.reason();
  job.earliest_at_ms = record.earliest_at_ms();
  if (!record.failed()) return;
  ++job.retries;
  for (auto& [key, replica] : job.replicas) {
    replica.failure_ms.clear();
    replica.out_of_memory_ms = 0;
    replica.given_up = false;
  }
}

void ClusterState::ApplyRequeued(JobRecord& job) {
  TROUPE_CHECK(job.phase == v1::StoredJob::REQUEUEING && job.live == 0, "JOB-1: a waiting job has no live worker");
  ReleaseSlots(job);
  job.phase = v1::StoredJob::WAITING;
  for (auto& [name, group] : job.groups) {
    if (group.policy == v1::ALL_FOR_ONE) ++group.generation;
  }
  job.stop.Clear();
}

const QueueUse& ClusterState::UseOfQueue(const std::string& name) const {
  static const QueueUse kNone;
  auto it = queue_use_.find(name);
  return it == queue_use_.end() ? kNone : it->second;
}

JobRecord& ClusterState::Job(const std::string& id) {
  auto it = jobs_.find(JobId(id));
  TROUPE_CHECK(it != jobs_.end(), "LOG-2: a record names a job that exists");
  return it->second;
}

}  // namespace troupe::scheduler
