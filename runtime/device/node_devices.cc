// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/node_devices.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "runtime/base/nearest.h"
#include "runtime/base/status.h"
#include "runtime/device/sim_source.h"

namespace troupe::device {
namespace {

absl::Status UnknownRequest(const std::string& request, const std::string& name) {
  std::vector<std::string> names = {"auto", "none"};
  for (const DeviceKind& kind : DeviceKinds()) names.push_back(kind.name);
  const std::string nearest = NearestOf(name, names);
  return absl::InvalidArgumentError("devices '" + request + "': '" + name +
                                    "' is no kind of device: expected auto, none, " + DeviceKindNames() +
                                    (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

// "0,2" of what is offered.
absl::StatusOr<std::vector<OfferedDevice>> Selected(const std::vector<OfferedDevice>& offered, const DeviceKind& kind,
                                                    const std::string& list) {
  std::vector<OfferedDevice> selected;
  const std::string request = "devices '" + kind.name + ":" + list + "': ";
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    begin = end + 1;
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0) {
      return absl::InvalidArgumentError(request + "'" + part + "' is no number of a device");
    }
    if (static_cast<size_t>(number) >= offered.size()) {
      return absl::NotFoundError(request + "there is no device " + part + ": this machine offers " +
                                 std::to_string(offered.size()) + " of kind " + kind.name);
    }
    auto same = [&](const OfferedDevice& other) { return other.found.device.index() == number; };
    if (std::any_of(selected.begin(), selected.end(), same)) {
      return absl::InvalidArgumentError(request + "device " + part + " is named twice");
    }
    selected.push_back(offered[static_cast<size_t>(number)]);
  }
  Renumber(selected);
  return selected;
}

}  // namespace

absl::StatusOr<NodeDevices> NodeDevices::Find(const std::string& request, const DevicePlaces& places) {
  if (request == "none") return NodeDevices();
  if (request == "auto") return FindAny(places);
  const size_t colon = request.find(':');
  const std::string name = request.substr(0, colon);
  const std::optional<std::string> details =
      colon == std::string::npos ? std::nullopt : std::optional(request.substr(colon + 1));
  const DeviceKind* kind = FindDeviceKind(name);
  if (kind == nullptr) return UnknownRequest(request, name);
  NodeDevices devices;
  devices.kind_ = kind->name;
  if (kind->find == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(SimDevices sim, ParseSimDevices(details.value_or("")));
    devices.source_ = MakeSimDevices(sim, places.sim_health_file);
    devices.devices_ = OfferedDevices(*kind, devices.source_->found(), {});
    return devices;
  }
  absl::StatusOr<std::unique_ptr<DeviceSource>> source = kind->find(places);
  if (!source.ok()) return Annotate(source.status(), "devices '" + request + "'");
  devices.source_ = *std::move(source);
  devices.devices_ = OfferedDevices(*kind, devices.source_->found(), places.environment);
  if (details.has_value()) {
    TROUPE_ASSIGN_OR_RETURN(devices.devices_, Selected(devices.devices_, *kind, *details));
  }
  return devices;
}

NodeDevices NodeDevices::FindAny(const DevicePlaces& places) {
  NodeDevices chosen;
  std::vector<std::string> notes;
  for (const DeviceKind& kind : DeviceKinds()) {
    if (kind.find == nullptr) continue;
    absl::StatusOr<std::unique_ptr<DeviceSource>> source = kind.find(places);
    if (!source.ok()) {
      if (!absl::IsNotFound(source.status()))
        notes.push_back("no " + kind.name + " devices: " + MessageOf(source.status()));
      continue;
    }
    std::vector<OfferedDevice> offered = OfferedDevices(kind, (*source)->found(), places.environment);
    if (offered.empty()) {
      notes.push_back("no " + kind.name + " devices: " + kind.variables[0].name + " hides all " +
                      std::to_string((*source)->found().size()));
    } else if (chosen.empty()) {
      chosen.kind_ = kind.name;
      chosen.source_ = *std::move(source);
      chosen.devices_ = std::move(offered);
    } else {
      notes.push_back("a node has devices of one kind: " + chosen.kind_ + " was chosen, its " +
                      std::to_string(offered.size()) + " of kind " + kind.name + " are not used; --devices " +
                      kind.name + " chooses those");
    }
  }
  chosen.notes_ = std::move(notes);
  return chosen;
}

std::vector<v1::DeviceHealth> NodeDevices::Health() {
  std::vector<v1::DeviceHealth> all = source_ == nullptr ? std::vector<v1::DeviceHealth>() : source_->Health();
  std::vector<v1::DeviceHealth> health;
  for (const OfferedDevice& device : devices_) {
    health.push_back(device.source_index < 0 ? Healthy() : all[static_cast<size_t>(device.source_index)]);
  }
  return health;
}

}  // namespace troupe::device
