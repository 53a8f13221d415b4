// SPDX-License-Identifier: Apache-2.0
// ClusterState: how many replicas there are, which of them stand and fall together, and what is given up while a job
// goes on.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "scheduler/core/cluster_state.h"

namespace troupe::scheduler {

bool JobRecord::unfinished(size_t slot) const {
  return std::any_of(slots[slot].members.begin(), slots[slot].members.end(),
                     [&](const ReplicaKey& key) { return !replicas.at(key).over(); });
}

bool JobRecord::any_live(size_t slot) const {
  return std::any_of(slots[slot].members.begin(), slots[slot].members.end(),
                     [&](const ReplicaKey& key) { return replicas.at(key).live; });
}

bool JobRecord::wants_place(size_t slot) const { return !placed[slot].placed() && unfinished(slot); }

std::vector<size_t> JobRecord::Lacking(bool anew) const {
  std::map<std::string, int> missing;  // Of elastic roles: how many of those that have no place must get one.
  for (const v1::RoleSpec& role : spec().roles()) {
    if (PolicyOf(role) != v1::ELASTIC) continue;
    int& count = missing[role.role()];
    count = std::min(BoundsOf(role).min, wanted.at(role.role()));
    for (auto it = replicas.lower_bound({role.role(), 0}); it != replicas.end() && it->first.role == role.role();
         ++it) {
      const bool held = !anew && placed[it->second.slot].placed() && !it->second.over();
      count -= it->second.done || held;
    }
  }
  std::vector<size_t> lacking;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!(anew ? unfinished(i) : wants_place(i))) continue;
    auto role = missing.empty() ? missing.end() : missing.find(slots[i].members[0].role);
    if (role != missing.end() ? --role->second >= 0 : !placed[i].optional) lacking.push_back(i);
  }
  return lacking;
}

std::vector<Slot> JobRecord::Demand(bool anew) const {
  std::vector<Slot> demand;
  for (size_t i : Lacking(anew)) demand.push_back(slots[i]);
  return demand;
}

std::vector<KeptSlot> JobRecord::Kept() const {
  std::vector<KeptSlot> kept;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (placed[i].placed() && placed[i].leaving.empty()) kept.push_back({&slots[i], placed[i].node, placed[i].devices});
  }
  return kept;
}

std::vector<size_t> JobRecord::Growing() const {
  std::vector<size_t> growing;
  const std::vector<size_t> lacking = Lacking(false);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (wants_place(i) && !std::binary_search(lacking.begin(), lacking.end(), i)) growing.push_back(i);
  }
  return growing;
}

bool JobRecord::lacks_slots() const { return phase == v1::StoredJob::PLACED && !Lacking(false).empty(); }

bool JobRecord::all_done() const {
  const bool done = std::all_of(replicas.begin(), replicas.end(), [this](const auto& entry) {
    const Replica& replica = entry.second;
    return !replica.live && (replica.over() || !placed[replica.slot].placed());
  });
  return done && Lacking(false).empty();
}

const Group* JobRecord::gang(const std::string& role) const {
  for (const auto& [name, group] : groups) {
    if (group.policy != v1::ALL_FOR_ONE) continue;
    if (std::find(group.roles.begin(), group.roles.end(), role) != group.roles.end()) return &group;
  }
  return nullptr;
}

std::string JobRecord::StopReason(const ReplicaKey& key, const Replica& replica) const {
  if (!replica.live) return "";
  if (!placed[replica.slot].leaving.empty()) return placed[replica.slot].leaving;
  const Group* group = replica.generation == 0 ? nullptr : gang(key.role);
  return group != nullptr && replica.generation < group->generation ? group->reason : "";
}

std::string NodeRecord::Distrust(int device, int64_t at_ms) const {
  auto it = quarantined.find(device);
  return it != quarantined.end() && at_ms < it->second.until_ms ? it->second.reason : "";
}

void NodeRecord::Clear(uint64_t new_incarnation) {
  NodeRecord cleared;
  cleared.incarnation = new_incarnation;
  cleared.drain_deadline_ms = drain_deadline_ms;
  cleared.drain_reason = std::move(drain_reason);
  cleared.quarantined = std::move(quarantined);
  *this = std::move(cleared);
}

// Nothing new goes where nothing is to be: DRAIN-1, QUAR-1.
void ClusterState::CheckPlace(const NodeId& node, const std::vector<int>& devices, int64_t at_ms) const {
  const NodeRecord* record = FindNode(node);
  TROUPE_CHECK(record != nullptr && !record->draining(), "DRAIN-1: nothing is granted on a drained node");
  for (int device : devices) {
    TROUPE_CHECK(record->Distrust(device, at_ms).empty(), "QUAR-1: nothing is granted on a device in quarantine");
  }
}

// Slots are numbered for good: new ones come behind, those of replicas that are gone stay where they are.
void ClusterState::AddSlot(JobRecord& job, const ReplicaKey& key) {
  Slot slot;
  slot.members = {key};
  slot.need = Amount::FromProto(job.role(key.role).resources());
  job.replicas[key].slot = job.slots.size();
  job.slots.push_back(std::move(slot));
  job.placed.emplace_back();
}

void ClusterState::ApplyScaled(const v1::RoleScaled& record) {
  JobRecord& job = Job(record.job_id());
  TROUPE_CHECK(!job.ended() && job.wanted.contains(record.role()), "SCALE-2: a role of a job that lives is scaled");
  job.wanted[record.role()] = record.replicas();
  for (int32_t n = 0; n < record.replicas(); ++n) {
    const ReplicaKey key{record.role(), n};
    const bool is_new = !job.replicas.contains(key);
    if (is_new) AddSlot(job, key);
    Replica& replica = job.replicas.at(key);
    if (!is_new && !replica.retired && !replica.given_up) continue;
    replica.retired = replica.given_up = false;
    replica.failure_ms.clear();
    replica.out_of_memory_ms = 0;
    job.placed[replica.slot].optional = true;
  }
  for (auto it = job.replicas.lower_bound({record.role(), record.replicas()});
       it != job.replicas.end() && it->first.role == record.role(); ++it) {
    it->second.retired = true;
    Leave(job, it->second.slot, record.reason());
  }
}

// Given up now, or with the exit of the last worker that lives there.
void ClusterState::Leave(JobRecord& job, size_t slot, const std::string& reason) {
  PlacedSlot& placed = job.placed[slot];
  if (!placed.placed()) return;
  if (placed.leaving.empty()) placed.leaving = reason;
  if (!job.any_live(slot)) GiveUpSlot(job, slot);
}

void ClusterState::GiveUpSlot(JobRecord& job, size_t slot) {
  const NodeId node = job.placed[slot].node;
  ReleaseSlot(job, slot);
  const bool others =
      std::any_of(job.placed.begin(), job.placed.end(), [&](const PlacedSlot& placed) { return placed.node == node; });
  if (!others) Leave(job.id, nodes_[node]);
}

void ClusterState::ApplyGroupRestarting(const v1::GroupRestarting& record) {
  JobRecord& job = Job(record.job_id());
  auto found = job.groups.find(record.group());
  TROUPE_CHECK(found != job.groups.end() && job.phase == v1::StoredJob::PLACED, "GRP-3: a placed group starts anew");
  Group& group = found->second;
  TROUPE_CHECK(record.generation() > group.generation, "GRP-2: generations only grow");
  group.generation = record.generation();
  group.reason = record.reason();
  for (auto& [key, replica] : job.replicas) {
    if (std::find(group.roles.begin(), group.roles.end(), key.role) != group.roles.end()) replica.done = false;
  }
}

void ClusterState::ApplyMoving(const v1::ReplicaMoving& record) {
  JobRecord& job = Job(record.actor().id().job_id());
  const Replica& replica = job.replicas.at({record.actor().id().role(), record.actor().id().replica()});
  TROUPE_CHECK(replica.incarnation == record.actor().incarnation() && job.placed[replica.slot].placed(),
               "MOVE-1: what moves has a place");
  Leave(job, replica.slot, record.reason());
}

void ClusterState::ApplyDrained(const v1::NodeDrained& record) {
  NodeRecord& node = nodes_[NodeId(record.node_id())];
  node.drain_deadline_ms = record.deadline_at_ms();
  node.drain_reason = record.reason();
}

void ClusterState::ApplyQuarantined(const v1::DeviceQuarantined& record) {
  NodeRecord& node = nodes_[NodeId(record.node_id())];
  if (record.until_at_ms() == 0) {
    node.quarantined.erase(record.device());
  } else {
    node.quarantined[record.device()] = {record.until_at_ms(), record.times(), record.reason()};
  }
}

void ClusterState::RestoreGroups(const v1::StoredJob& stored, JobRecord& job) {
  for (const v1::ActorId& added : stored.added_slots()) AddSlot(job, {added.role(), added.replica()});
  for (const v1::RoleScaled& scaled : stored.scaled()) job.wanted[scaled.role()] = scaled.replicas();
  for (auto& [key, replica] : job.replicas) replica.retired = key.replica >= job.wanted.at(key.role);
  for (const v1::GroupRestarting& restarted : stored.groups()) {
    Group& group = job.groups.at(restarted.group());
    group.generation = restarted.generation();
    group.reason = restarted.reason();
  }
}

}  // namespace troupe::scheduler
