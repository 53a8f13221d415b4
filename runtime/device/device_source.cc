// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_source.h"

namespace troupe::device {
namespace {

v1::DeviceHealth Health(v1::DeviceHealth::State state, const std::string& reason) {
  v1::DeviceHealth health;
  health.set_state(state);
  health.set_reason(reason);
  return health;
}

}  // namespace

FoundDevice PlainDevice(const std::string& kind, int index) {
  FoundDevice found;
  found.device.set_index(index);
  found.device.set_kind(kind);
  found.device.set_numa_node(-1);
  found.device.set_island(-1);
  *found.device.mutable_health() = Healthy();
  found.visible_name = std::to_string(index);
  return found;
}

v1::DeviceHealth Healthy() { return Health(v1::DeviceHealth::HEALTHY, ""); }
v1::DeviceHealth Degraded(const std::string& reason) { return Health(v1::DeviceHealth::DEGRADED, reason); }
v1::DeviceHealth Failed(const std::string& reason) { return Health(v1::DeviceHealth::FAILED, reason); }

v1::DeviceHealth Worse(const v1::DeviceHealth& a, const v1::DeviceHealth& b) { return b.state() > a.state() ? b : a; }

}  // namespace troupe::device
