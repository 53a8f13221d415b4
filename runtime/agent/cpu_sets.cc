// SPDX-License-Identifier: Apache-2.0
#include "runtime/agent/cpu_sets.h"

#include <algorithm>
#include <cmath>

namespace troupe::agent {
namespace {

// The whole processors that it asks for; 0: it asks for a part of one, or for none.
size_t WholeCpus(const v1::StartWorker& start) {
  const double cpus = start.role().resources().cpus();
  return cpus >= 1 && cpus == std::floor(cpus) && cpus < 1e6 ? static_cast<size_t>(cpus) : 0;
}

// Who takes turns with whom: replica i of all roles of a group. A role's name has no '/'.
std::string SlotOf(const v1::StartWorker& start) {
  const v1::ActorId& id = start.actor().id();
  const std::string& group = start.role().colocation_group();
  return id.job_id() + (group.empty() ? "/role/" + id.role() : "/group/" + group) + "/" + std::to_string(id.replica());
}

}  // namespace

CpuSets::CpuSets(std::vector<int> cpus, std::map<int, std::vector<int>> numa_cpus)
    : cpus_(std::move(cpus)), numa_cpus_(std::move(numa_cpus)) {}

CpuSets::Share& CpuSets::Of(const v1::StartWorker& start) {
  const ActorLife actor = ActorLife::FromProto(start.actor());
  Share& share = shares_[slots_[actor] = SlotOf(start)];
  share.members.insert(actor);
  return share;
}

std::vector<int> CpuSets::Take(const v1::StartWorker& start, const std::vector<int>& numa_nodes) {
  const size_t wanted = WholeCpus(start);
  if (wanted == 0) return {};
  std::vector<int> order;  // Those near its devices, then all.
  for (int node : numa_nodes) {
    auto near = numa_cpus_.find(node);
    if (near != numa_cpus_.end()) order.insert(order.end(), near->second.begin(), near->second.end());
  }
  order.insert(order.end(), cpus_.begin(), cpus_.end());
  Share& share = Of(start);
  std::vector<int> more;
  for (int cpu : order) {
    if (share.cpus.size() + more.size() >= wanted) break;
    const bool usable = std::find(cpus_.begin(), cpus_.end(), cpu) != cpus_.end();
    if (usable && !taken_.contains(cpu) && std::find(more.begin(), more.end(), cpu) == more.end()) more.push_back(cpu);
  }
  if (share.cpus.size() + more.size() < wanted) {
    Release(ActorLife::FromProto(start.actor()));
    return {};
  }
  taken_.insert(more.begin(), more.end());
  share.cpus.insert(share.cpus.end(), more.begin(), more.end());
  std::sort(share.cpus.begin(), share.cpus.end());
  return share.cpus;
}

void CpuSets::Hold(const v1::StartWorker& start, const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  Share& share = Of(start);
  for (int cpu : cpus) {
    if (taken_.insert(cpu).second) share.cpus.push_back(cpu);
  }
  std::sort(share.cpus.begin(), share.cpus.end());
}

void CpuSets::Release(const ActorLife& actor) {
  auto slot = slots_.find(actor);
  if (slot == slots_.end()) return;
  auto share = shares_.find(slot->second);
  share->second.members.erase(actor);
  if (share->second.members.empty()) {
    for (int cpu : share->second.cpus) taken_.erase(cpu);
    shares_.erase(share);
  }
  slots_.erase(slot);
}

}  // namespace troupe::agent
