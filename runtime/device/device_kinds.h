// SPDX-License-Identifier: Apache-2.0
// The kinds of devices, in one table: how each is found, which variables show a worker its devices, where its health
// comes from. docs/running.md shows the table; a test compares them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// How a variable names the devices that a process is to see.
enum class VisibleForm {
  kNames,      // FoundDevice.visible_name; the kind's own runtime reads it.
  kSame,       // The same, read by other software of the kind.
  kPositions,  // Numbers within what the variable before it left: "0,1".
};

struct VisibleVariable {
  std::string name;
  VisibleForm form = VisibleForm::kNames;
};

struct DeviceKind {
  std::string name;
  std::string vendor;
  std::string found_by;
  std::vector<VisibleVariable> variables;
  std::string health_from;
  // Null: only when it is asked for by name (sim).
  absl::StatusOr<std::unique_ptr<DeviceSource>> (*find)(const DevicePlaces& places) = nullptr;
};

// In the order in which `auto` looks for them.
const std::vector<DeviceKind>& DeviceKinds();

// nullptr: there is no such kind.
const DeviceKind* FindDeviceKind(std::string_view name);

// "ppu, cuda, ...", for messages.
std::string DeviceKindNames();

}  // namespace troupe::device
