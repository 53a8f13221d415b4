// SPDX-License-Identifier: Apache-2.0
// Cluster: devices of nodes: how they are, and who holds them.
#include <algorithm>

#include "scheduler/core/cluster.h"
#include "scheduler/core/device_report.h"

namespace troupe::scheduler {

void Cluster::DeviceChanged(const NodeId& id, SessionId session, const v1::Device& device) {
  NodeSoft& node = nodes_.at(id);
  if (absl::Status status = CheckDeviceChanged(node.info, device); !status.ok()) {
    node.session = 0;
    sessions_.erase(session);
    NodeChanged(id);
    return Act(CloseSession{session, status});
  }
  v1::Device& known = *node.info.mutable_devices(device.index());
  const bool failed_before = known.health().state() == v1::DeviceHealth::FAILED;
  known = device;
  if (failed_before && device.health().state() != v1::DeviceHealth::FAILED) place_again_ = true;
  NoticeFailedDevices(id);
  NodeChanged(id);
}

bool Cluster::DeviceFailed(const NodeId& id, int device) const {
  auto node = nodes_.find(id);
  return node != nodes_.end() && device >= 0 && device < node->second.info.devices_size() &&
         node->second.info.devices(device).health().state() == v1::DeviceHealth::FAILED;
}

// One pass over the slots of the jobs that these nodes host, however many of the nodes a job lies on.
std::map<NodeId, std::vector<Cluster::HeldDevices>> Cluster::DeviceHolders(const std::set<NodeId>& nodes) const {
  std::vector<const JobId*> jobs;
  for (const NodeId& id : nodes) {
    const NodeRecord* record = state_.FindNode(id);
    if (record == nullptr || record->device_used.empty()) continue;
    for (const JobId& job : record->jobs) jobs.push_back(&job);
  }
  std::sort(jobs.begin(), jobs.end(), [](const JobId* a, const JobId* b) { return *a < *b; });
  jobs.erase(std::unique(jobs.begin(), jobs.end(), [](const JobId* a, const JobId* b) { return *a == *b; }),
             jobs.end());
  std::map<NodeId, std::vector<HeldDevices>> holders;
  for (const JobId* job_id : jobs) {
    const JobRecord& job = *state_.FindJob(*job_id);
    for (size_t i = 0; i < job.placed.size(); ++i) {
      const PlacedSlot& placed = job.placed[i];
      if (!placed.devices.empty() && nodes.contains(placed.node)) holders[placed.node].push_back({&job, i});
    }
  }
  return holders;
}

void Cluster::ShowDevices(const NodeRecord& record, const NodeSoft& node, const std::vector<HeldDevices>& held,
                          v1::Node& view) const {
  *view.mutable_devices() = node.info.devices();
  std::map<int, v1::DeviceUse> uses;
  for (const auto& [device, shares] : record.device_used) {
    uses[device].set_share(static_cast<double>(shares) / kSharesPerDevice);
  }
  for (const HeldDevices& holder : held) {
    const Slot& slot = holder.job->slots[holder.slot];
    int64_t memory_bytes = 0;
    for (const ReplicaKey& key : slot.members) {
      memory_bytes = std::max(memory_bytes, holder.job->role(key.role).resources().device_memory_bytes());
    }
    for (int device : holder.job->placed[holder.slot].devices) {
      v1::DeviceUse& use = uses[device];
      use.set_memory_bytes(use.memory_bytes() + memory_bytes);
      for (const ReplicaKey& key : slot.members) {
        v1::ActorId& actor = *use.add_holders();
        actor.set_job_id(holder.job->id.value());
        actor.set_role(key.role);
        actor.set_replica(key.replica);
      }
    }
  }
  for (const v1::Device& device : node.info.devices()) {
    if (device.health().state() == v1::DeviceHealth::FAILED) {
      uses[device.index()].set_quarantined(device.health().reason());
    }
  }
  for (const auto& [device, quarantine] : record.quarantined) {
    const std::string why = record.Distrust(device, ClusterMs());
    if (!why.empty() && uses[device].quarantined().empty()) uses[device].set_quarantined(why);
  }
  for (auto& [device, use] : uses) {
    use.set_index(device);
    *view.add_device_use() = std::move(use);
  }
}

}  // namespace troupe::scheduler
