// SPDX-License-Identifier: Apache-2.0
// Cluster: devices that are not trusted for a while: those that their node says have failed, and those on which workers
// of different jobs failed that fail nowhere else. What a job does wrong fails on any device and blames none.
#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "scheduler/core/cluster.h"
#include "scheduler/core/restart_policy.h"

namespace troupe::scheduler {
namespace {

// Whether a worker may end like that because of its device. Not by a kill from outside, and not for lack of memory.
bool MayBeTheDevice(const v1::ExitCause& cause) {
  switch (cause.kind()) {
    case v1::ExitCause::SIGNALED:
      return cause.signal() != SIGKILL && cause.signal() != SIGTERM && cause.signal() != SIGINT;
    case v1::ExitCause::START_FAILED:
      return !IsWrongInput(static_cast<absl::StatusCode>(cause.status_code()));
    case v1::ExitCause::EXITED:
    case v1::ExitCause::HUNG:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Why the device gets nothing new; "" it does.
std::string Cluster::Distrust(const NodeId& id, int device) const {
  if (DeviceFailed(id, device)) return nodes_.at(id).info.devices(device).health().reason();
  return state_.FindNode(id)->Distrust(device, ClusterMs());
}

bool Cluster::DistrustsAny(const NodeId& id) const {
  const NodeRecord& record = *state_.FindNode(id);
  auto node = nodes_.find(id);
  return (node != nodes_.end() && !node->second.failed_since_ms.empty()) ||
         std::any_of(record.quarantined.begin(), record.quarantined.end(),
                     [this](const auto& entry) { return ClusterMs() < entry.second.until_ms; });
}

// A failed device gets nothing as long as its node says so. The first time that is all; one that fails again and again
// has to hold out for a while each time.
void Cluster::NoticeFailedDevices(const NodeId& id) {
  NodeSoft& node = nodes_.at(id);
  for (const v1::Device& device : node.info.devices()) {
    const int index = device.index();
    if (device.health().state() != v1::DeviceHealth::FAILED) {
      node.failed_since_ms.erase(index);
      continue;
    }
    if (!node.failed_since_ms.emplace(index, ClusterMs()).second) continue;
    if (state_.FindNode(id)->Distrust(index, ClusterMs()).empty()) Quarantine(id, index, 0, device.health().reason());
    distrusted_.insert(id);
    node_timers_.insert({ClusterMs() + kDrainMsDefault, id});
    place_again_ = true;
  }
}

// Evidence is soft: a head that was restarted begins to collect it anew.
void Cluster::BlameDevices(const JobId& job, const PlacedSlot& place, const v1::ExitCause& cause) {
  if (place.devices.empty() || !MayBeTheDevice(cause)) return;
  const int64_t begin_ms = ClusterMs() - kBlameWindowMs;
  std::erase_if(blames_, [&](const auto& entry) { return entry.second.at_ms <= begin_ms; });
  std::set<std::pair<NodeId, int>> devices;
  for (int device : place.devices) devices.insert({place.node, device});
  Blame& blame = blames_[job];
  blame.elsewhere = blame.elsewhere || (!blame.devices.empty() && blame.devices != devices);
  blame.devices = devices;
  blame.at_ms = ClusterMs();
  for (const auto& blamed : devices) {
    const auto jobs = std::count_if(blames_.begin(), blames_.end(), [&](const auto& entry) {
      return !entry.second.elsewhere && entry.second.devices.contains(blamed);
    });
    if (jobs < kBlamesMax || !Distrust(blamed.first, blamed.second).empty()) continue;
    Quarantine(blamed.first, blamed.second, kQuarantineInitialMs,
               absl::StrCat("workers of ", jobs, " jobs failed on it within ", kBlameWindowMs / 60'000,
                            " min and on no other device, the last one ", CauseText(cause)));
  }
}

// `first_ms`: how long the first time takes.
void Cluster::Quarantine(const NodeId& id, int device, int64_t first_ms, const std::string& reason) {
  const NodeRecord& node = *state_.FindNode(id);
  auto before = node.quarantined.find(device);
  const bool again = before != node.quarantined.end() && ClusterMs() < before->second.until_ms + kQuarantineMsMax;
  const int times = again ? before->second.times + 1 : 1;
  const int64_t longer_ms = std::min(kQuarantineInitialMs << std::min(times - 1, 20), kQuarantineMsMax);
  const int64_t duration_ms = times == 1 ? first_ms : longer_ms;
  v1::Record record;
  v1::DeviceQuarantined& quarantined = *record.mutable_device_quarantined();
  quarantined.set_node_id(id.value());
  quarantined.set_device(device);
  quarantined.set_until_at_ms(std::max<int64_t>(ClusterMs() + duration_ms, 1));
  quarantined.set_reason(reason);
  quarantined.set_times(times);
  Commit(std::move(record));
  LogNode("device_quarantined", id,
          absl::StrCat("device ", device, " gets nothing new",
                       duration_ms == 0 ? std::string(" until its node says that it is well")
                                        : absl::StrCat(" for ", duration_ms / 1000, " s"),
                       ", time ", times, " in a row: ", reason));
  WatchNode(id);
  NodeChanged(id);
  place_again_ = true;
}

}  // namespace troupe::scheduler
