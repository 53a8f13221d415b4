// SPDX-License-Identifier: Apache-2.0
#include "scheduler/core/invariants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace troupe::scheduler {
namespace {

// What the slots of all jobs hold on one node, added up anew.
struct Use {
  int64_t milli_cpus = 0;
  int64_t memory_bytes = 0;
  std::map<int, int32_t> devices;
};

void AddUse(const JobRecord& job, std::map<NodeId, Use>& uses, std::map<std::string, QueueUse>& queues) {
  if (job.placed_at_ms != 0) ++queues[job.queue()].jobs;
  for (size_t i = 0; i < job.slots.size(); ++i) {
    if (!job.placed[i].placed()) continue;
    const Amount& need = job.slots[i].need;
    queues[job.queue()].Add(need, 1);
    Use& use = uses[job.placed[i].node];
    use.milli_cpus += need.milli_cpus;
    use.memory_bytes += need.memory_bytes;
    for (int device : job.placed[i].devices) {
      use.devices[device] += need.devices > 0 ? kSharesPerDevice : need.device_shares;
    }
  }
}

void CheckJob(const JobRecord& job, std::vector<std::string>& broken) {
  auto say = [&](const char* what) { broken.push_back(absl::StrCat(what, ": ", job.id.value())); };
  auto held = std::count_if(job.placed.begin(), job.placed.end(), [](const PlacedSlot& p) { return p.placed(); });
  auto live = std::count_if(job.replicas.begin(), job.replicas.end(), [](const auto& r) { return r.second.live; });
  if (live != job.live) say("JOB-5: the count of live workers is right");
  if (job.ended() && (live > 0 || held > 0)) say("END-1: an ended job has no live worker and holds nothing");
  if (job.phase == v1::StoredJob::WAITING && (live > 0 || held > 0)) say("JOB-1: a waiting job holds nothing");
}

// Each live worker is on a living node, inside its slot (LIVE-1).
void CheckWorkers(const ClusterState& state, const JobRecord& job, std::vector<std::string>& broken) {
  for (size_t i = 0; i < job.slots.size(); ++i) {
    for (const ReplicaKey& key : job.slots[i].members) {
      const Replica& replica = job.replicas.at(key);
      if (!replica.live) continue;
      const NodeRecord* node = state.FindNode(replica.node);
      bool lives = node != nullptr && !node->ended && node->incarnation == replica.node_incarnation;
      if (!lives || job.placed[i].node != replica.node) {
        broken.push_back(absl::StrCat("LIVE-1: a live worker is on a living node, where its slot is: ", job.id.value(),
                                      "/", key.ToString()));
      }
    }
  }
}

void CheckGroups(const JobRecord& job, std::vector<std::string>& broken) {
  for (const auto& [name, group] : job.groups) {
    std::set<uint64_t> live;
    for (const auto& [key, replica] : job.replicas) {
      if (replica.live && job.gang(key.role) == &group) live.insert(replica.generation);
    }
    if (live.size() > 1 || (!live.empty() && *live.rbegin() > group.generation)) {
      broken.push_back(
          absl::StrCat("GRP-1: living members of a gang are of one generation: ", job.id.value(), "/", name));
    }
  }
  for (const auto& [key, replica] : job.replicas) {
    if (replica.retired != (key.replica >= job.wanted.at(key.role))) {
      broken.push_back(
          absl::StrCat("SCALE-2: who is beyond the role's number is retired: ", job.id.value(), "/", key.ToString()));
    }
    if (replica.retired && !replica.live && job.placed[replica.slot].placed()) {
      broken.push_back(
          absl::StrCat("SCALE-3: who is retired holds nothing after its exit: ", job.id.value(), "/", key.ToString()));
    }
  }
}

}  // namespace

std::vector<std::string> BrokenInvariants(const ClusterState& state) {
  std::vector<std::string> broken;
  std::map<NodeId, Use> uses;
  std::map<std::string, QueueUse> queues;
  for (const auto& [id, job] : state.jobs()) {
    CheckJob(job, broken);
    CheckWorkers(state, job, broken);
    CheckGroups(job, broken);
    AddUse(job, uses, queues);
  }
  for (const auto& [name, queue] : state.queues()) {
    if (queues[name] != state.UseOfQueue(name))
      broken.push_back("QUEUE-1: a queue's use is what its jobs hold: " + name);
  }
  for (const auto& [id, node] : state.nodes()) {
    const Use& use = uses[id];
    if (use.milli_cpus != node.used_milli_cpus || use.memory_bytes != node.used_memory_bytes ||
        use.devices != node.device_used) {
      broken.push_back(absl::StrCat("NODE-2: what is taken on a node is what slots hold: ", id.value()));
    }
    if (node.ended && !use.devices.empty()) broken.push_back("INC-2: slots lie on living nodes: " + id.value());
    for (const auto& [device, shares] : use.devices) {
      if (shares > kSharesPerDevice) {
        broken.push_back(
            absl::StrCat("DEV-1: a device (its share) has at most one live owner: ", id.value(), " device ", device));
      }
    }
  }
  return broken;
}

std::vector<std::string> BrokenByChange(const ClusterState& before, const ClusterState& after) {
  std::vector<std::string> broken;
  if (after.term() < before.term()) broken.push_back("INC-1: terms only grow");
  if (after.at_ms() < before.at_ms()) broken.push_back("TIME-1: cluster time does not go back");
  for (const auto& [id, node] : before.nodes()) {
    const NodeRecord* now = after.FindNode(id);
    if (now != nullptr && now->incarnation < node.incarnation)
      broken.push_back("INC-1: incarnations grow: " + id.value());
  }
  for (const auto& [id, job] : before.jobs()) {
    const JobRecord* now = after.FindJob(id);
    if (now == nullptr) {
      if (!job.ended()) broken.push_back("END-2: only an ended job is forgotten: " + id.value());
      continue;
    }
    bool decided = job.phase == v1::StoredJob::ENDING || job.ended();
    if (decided && now->ending.end_state() != job.ending.end_state()) {
      broken.push_back("END-3: the end of a job is decided once: " + id.value());
    }
    if (job.ended() && !now->ended()) broken.push_back("END-1: an ended job stays ended: " + id.value());
    for (const auto& [name, group] : job.groups) {
      if (now->groups.at(name).generation < group.generation) {
        broken.push_back(absl::StrCat("GRP-2: generations only grow: ", id.value(), "/", name));
      }
    }
    for (const auto& [key, replica] : job.replicas) {
      if (now->replicas.at(key).incarnation < replica.incarnation) {
        broken.push_back(absl::StrCat("INC-1: incarnations grow: ", id.value(), "/", key.ToString()));
      }
    }
  }
  return broken;
}

}  // namespace troupe::scheduler
