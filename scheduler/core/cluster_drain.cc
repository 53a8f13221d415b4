// SPDX-License-Identifier: Apache-2.0
// Cluster: what runs where nothing is to run any more moves elsewhere: from nodes that are drained and devices that
// failed. Looked at again whenever places became free, until the node is empty.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/nearest.h"
#include "scheduler/core/cluster.h"

namespace troupe::scheduler {
namespace {

absl::Status NoSuchNode(const std::string& id, const std::map<NodeId, NodeRecord>& nodes) {
  std::vector<std::string> known;
  for (const auto& [other, record] : nodes) known.push_back(other.value());
  const std::string nearest = NearestOf(id, known);
  return absl::NotFoundError(absl::StrCat(
      "there is no node '", id, "'",
      nearest.empty() ? std::string("; see 'troupe nodes'") : absl::StrCat("; the nearest is '", nearest, "'")));
}

}  // namespace

void Cluster::On(const DrainNode& event) {
  const v1::DrainNodeRequest& request = event.request;
  const NodeId id(request.node_id());
  if (state_.FindNode(id) == nullptr) return Reply(event.call, NoSuchNode(request.node_id(), state_.nodes()));
  if (absl::Status status = CheckDuration("deadline_ms", request.deadline_ms()); !status.ok()) {
    return Reply(event.call, status);
  }
  const int64_t deadline_ms = request.deadline_ms() > 0 ? request.deadline_ms() : kDrainMsDefault;
  DecideDrain(id, ClusterMs() + deadline_ms, request.reason());
  LogNode("draining", id,
          absl::StrCat("what runs there has ", deadline_ms / 1000.0, " s to move",
                       request.reason().empty() ? "" : ": " + request.reason()));
  Reply(event.call, absl::OkStatus());
}

void Cluster::On(const UndrainNode& event) {
  const NodeId id(event.node_id);
  const NodeRecord* record = state_.FindNode(id);
  if (record == nullptr) return Reply(event.call, NoSuchNode(event.node_id, state_.nodes()));
  if (record->draining()) {
    DecideDrain(id, 0, "");
    LogNode("undrained", id, "it gets work again");
  }
  Reply(event.call, absl::OkStatus());
}

void Cluster::DecideDrain(const NodeId& id, int64_t deadline_at_ms, const std::string& reason) {
  v1::Record record;
  record.mutable_node_drained()->set_node_id(id.value());
  record.mutable_node_drained()->set_deadline_at_ms(deadline_at_ms);
  record.mutable_node_drained()->set_reason(reason);
  Commit(std::move(record));
  WatchNode(id);
  const std::set<JobId>& jobs = state_.FindNode(id)->jobs;
  dirty_.insert(jobs.begin(), jobs.end());
  place_again_ = true;
  NodeChanged(id);
}

// Also after a restart of the head.
void Cluster::RememberMoves(const JobRecord& job) {
  for (size_t i = 0; i < job.slots.size(); ++i) {
    if (!job.placed[i].leaving.empty() && job.unfinished(i)) moving_.insert({job.id, i});
  }
}

void Cluster::WatchNode(const NodeId& id) {
  const NodeRecord* record = state_.FindNode(id);
  for (const auto& [device, quarantine] : record->quarantined) {
    if (quarantine.until_ms <= ClusterMs()) continue;
    distrusted_.insert(id);
    node_timers_.insert({quarantine.until_ms, id});
  }
  if (!record->draining()) {
    draining_.erase(id);
    return;
  }
  draining_[id] = record->jobs.empty() && draining_.contains(id) && draining_.at(id);
  node_timers_.insert({record->drain_deadline_ms, id});
}

bool Cluster::TakesWork(const NodeId& id) const {
  auto node = nodes_.find(id);
  return node != nodes_.end() && node->second.usable() && !state_.FindNode(id)->draining();
}

void Cluster::LogNode(const std::string& event, const NodeId& node, const std::string& reason) {
  Act(WriteEvent{"", "", now_.unix_ms, event, "", node.value(), reason});
}

// Why nothing is started in the slot's place; "" it is.
std::string Cluster::LeaveReason(const PlacedSlot& slot) const {
  const NodeRecord& node = *state_.FindNode(slot.node);
  if (node.draining()) {
    return absl::StrCat("node ", slot.node.value(), " is drained", node.drain_reason.empty() ? "" : ": ",
                        node.drain_reason);
  }
  for (int device : slot.devices) {
    const std::string why = Distrust(slot.node, device);
    if (!why.empty()) return absl::StrCat("device ", device, " of node ", slot.node.value(), ": ", why);
  }
  return "";
}

// When what runs there has to be gone, in cluster time; kNever: it may go on there.
int64_t Cluster::LeaveBy(const PlacedSlot& slot) const {
  const NodeRecord& record = *state_.FindNode(slot.node);
  int64_t leave_by = record.draining() ? record.drain_deadline_ms : kNever;
  auto node = nodes_.find(slot.node);
  for (int device : slot.devices) {
    if (!DeviceFailed(slot.node, device)) continue;
    auto since = node->second.failed_since_ms.find(device);
    if (since != node->second.failed_since_ms.end()) leave_by = std::min(leave_by, since->second + kDrainMsDefault);
  }
  return leave_by;
}

void Cluster::MoveAway() {
  for (auto it = distrusted_.begin(); it != distrusted_.end();) {
    const NodeId id = *it;
    const std::set<JobId> jobs = state_.FindNode(id)->jobs;
    for (const JobId& job : jobs) MoveJob(*state_.FindJob(job), id);
    it = DistrustsAny(id) ? std::next(it) : distrusted_.erase(it);
  }
  for (auto& [id, empty] : draining_) {
    const NodeRecord& node = *state_.FindNode(id);
    const std::set<JobId> jobs = node.jobs;
    for (const JobId& job : jobs) MoveJob(*state_.FindJob(job), id);
    if (!std::exchange(empty, node.jobs.empty()) && empty) {
      LogNode("drained", id, "nothing runs there any more");
      NodeChanged(id);
    }
  }
}

// What of the job lies on that node and has to leave: one by one, or the job as a whole after a checkpoint.
void Cluster::MoveJob(const JobRecord& job, const NodeId& from) {
  if (job.phase != v1::StoredJob::PLACED) return;
  std::vector<size_t> leaving;
  int64_t deadline_ms = kNever;
  for (size_t i = 0; i < job.slots.size(); ++i) {
    const PlacedSlot& slot = job.placed[i];
    if (slot.node != from || !slot.leaving.empty() || LeaveReason(slot).empty()) continue;
    if (!job.any_live(i)) {
      MoveSlot(job, i, LeaveReason(slot));  // Nothing is started there again.
    } else if (LeaveBy(slot) != kNever) {
      leaving.push_back(i);
      deadline_ms = std::min(deadline_ms, LeaveBy(slot));
    }
  }
  if (leaving.empty()) return;
  const std::string reason = LeaveReason(job.placed[leaving[0]]);
  const bool now = ClusterMs() >= deadline_ms;
  if (NeedsCheckpoint(job, leaving)) return MoveWhole(job, reason, deadline_ms);
  if (job.stop_requested() && !now) return;  // It ends or goes back to its queue anyway.
  std::set<std::string> gangs;
  std::vector<size_t> gang_slots;
  for (size_t i : leaving) {
    const Group* gang = GangOf(job, i);
    if (gang == nullptr) {
      if (now || FitsElsewhere(job, {i})) MoveSlot(job, i, reason);
    } else {
      gangs.insert(GroupName(job.role(gang->roles[0])));
      gang_slots.push_back(i);
    }
  }
  if (gang_slots.empty() || !(now || FitsElsewhere(job, gang_slots))) return;
  for (size_t i : gang_slots) MoveSlot(job, i, reason);
  for (const std::string& gang : gangs) RestartGang(job, gang, reason);
}

const Group* Cluster::GangOf(const JobRecord& job, size_t slot) const {
  for (const ReplicaKey& key : job.slots[slot].members) {
    if (const Group* gang = job.gang(key.role)) return gang;
  }
  return nullptr;
}

// A controller, and a gang of a job that has one, lose what they did since the last checkpoint.
bool Cluster::NeedsCheckpoint(const JobRecord& job, const std::vector<size_t>& slots) const {
  return job.has_controller() && std::any_of(slots.begin(), slots.end(), [&](size_t slot) {
           const std::vector<ReplicaKey>& members = job.slots[slot].members;
           return GangOf(job, slot) != nullptr ||
                  std::any_of(members.begin(), members.end(),
                              [](const ReplicaKey& key) { return key.role == "controller"; });
         });
}

void Cluster::MoveWhole(const JobRecord& job, const std::string& reason, int64_t deadline_ms) {
  if (ClusterMs() < deadline_ms) return RequeueAfterCheckpoint(job, reason, deadline_ms - ClusterMs());
  if (!job.stop_requested() || job.stop.requeue()) return Requeue(job, reason);
  EndJob(job, v1::JOB_CANCELLED, absl::StrCat("it was asked to stop and reached no safe point in time; ", reason));
}

// Whether these slots have a place elsewhere, beside all that is on its way already.
bool Cluster::FitsElsewhere(const JobRecord& job, const std::vector<size_t>& slots) {
  RefreshFree();
  std::vector<Slot> wanted;
  for (auto it = moving_.begin(); it != moving_.end();) {
    const auto& [id, slot] = *it;
    const JobRecord* other = state_.FindJob(id);
    const bool under_way = other != nullptr && other->phase == v1::StoredJob::PLACED && other->unfinished(slot) &&
                           !(other->placed[slot].placed() && other->placed[slot].leaving.empty());
    if (under_way) wanted.push_back(other->slots[slot]);
    it = under_way ? std::next(it) : moving_.erase(it);
  }
  for (size_t i : slots) wanted.push_back(job.slots[i]);
  return Place(wanted, free_).verdict == PlacementVerdict::kPlaced;
}

void Cluster::MoveSlot(const JobRecord& job, size_t slot, const std::string& reason) {
  const ReplicaKey& key = job.slots[slot].members[0];
  const NodeId from = job.placed[slot].node;
  v1::Record record;
  v1::ReplicaMoving& moving = *record.mutable_replica_moving();
  *moving.mutable_actor() = ActorLife{{job.id, key.role, key.replica}, job.replicas.at(key).incarnation}.ToProto();
  moving.set_reason(reason);
  Commit(std::move(record));
  Log(job, "moving", reason, job.slots[slot].ToString(), from);
  if (job.unfinished(slot)) moving_.insert({job.id, slot});
  dirty_.insert(job.id);
  place_again_ = true;
  NodeChanged(from);
}

}  // namespace troupe::scheduler
