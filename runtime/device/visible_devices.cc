// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/visible_devices.h"

#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

namespace troupe::device {
namespace {

// Parts of GPUs have UUIDs of their own, which no list of GPUs has.
constexpr std::string_view kGpuPart = "MIG-";

bool IsNamed(const OfferedDevice& device, size_t position, const std::string& name) {
  int number = 0;
  if (absl::SimpleAtoi(name, &number)) return number == static_cast<int>(position);
  return !device.found.device.id().empty() && device.found.device.id().rfind(name, 0) == 0;
}

std::vector<OfferedDevice> Restrict(const std::vector<OfferedDevice>& devices, const std::vector<std::string>& names,
                                    const std::string& kind) {
  std::vector<OfferedDevice> shown;
  for (const std::string& name : names) {
    size_t at = 0;
    while (at < devices.size() && !IsNamed(devices[at], at, name)) ++at;
    if (at < devices.size()) {
      shown.push_back(devices[at]);
    } else if (name.rfind(kGpuPart, 0) == 0) {
      OfferedDevice& part = shown.emplace_back(OfferedDevice{PlainDevice(kind, 0), -1});
      part.found.device.set_id(name);
      part.found.device.set_model("part of a GPU");
      part.found.visible_name = name;
    } else {
      break;
    }
  }
  return shown;
}

}  // namespace

std::vector<std::string> VisibleNames(std::string_view value) {
  std::vector<std::string> devices;
  std::istringstream names{std::string(value)};
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty() || name[0] == '-' || name == "NoDevFiles") break;
    devices.push_back(name);
  }
  return devices;
}

std::vector<OfferedDevice> OfferedDevices(const DeviceKind& kind, const std::vector<FoundDevice>& found,
                                          const std::map<std::string, std::string>& environment) {
  std::vector<OfferedDevice> devices;
  for (size_t i = 0; i < found.size(); ++i) devices.push_back({found[i], static_cast<int>(i)});
  bool named = false;
  for (const VisibleVariable& variable : kind.variables) {
    auto value = environment.find(variable.name);
    if (value == environment.end() || (variable.form == VisibleForm::kSame && named)) continue;
    named = true;
    devices = Restrict(devices, VisibleNames(value->second), kind.name);
  }
  Renumber(devices);
  return devices;
}

void Renumber(std::vector<OfferedDevice>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) devices[i].found.device.set_index(static_cast<int>(i));
}

std::map<std::string, std::string> VisibleEnvironment(std::string_view kind, const std::vector<std::string>& devices) {
  std::map<std::string, std::string> environment;
  for (const DeviceKind& other : DeviceKinds()) {
    for (const VisibleVariable& variable : other.variables) environment[variable.name] = "";
  }
  const DeviceKind* own = FindDeviceKind(kind);
  if (own == nullptr) return environment;
  std::vector<std::string> positions;
  for (size_t i = 0; i < devices.size(); ++i) positions.push_back(std::to_string(i));
  for (const VisibleVariable& variable : own->variables) {
    environment[variable.name] = absl::StrJoin(variable.form == VisibleForm::kPositions ? positions : devices, ",");
  }
  return environment;
}

}  // namespace troupe::device
