// SPDX-License-Identifier: Apache-2.0
// Visible devices: which of a machine's devices a process may see, as environment variables tell it. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/device_kinds.h"

namespace troupe::device {

// The devices that a value of such a variable shows, as the drivers read it: names up to the first that is empty or
// negative, so none in "" and "-1".
std::vector<std::string> VisibleNames(std::string_view value);

// A device that this node offers: `source_index` is its place in DeviceSource::found(), -1 when it is not there (a part
// of a GPU, which is named but not listed).
struct OfferedDevice {
  FoundDevice found;  // device.index: its number on this node.
  int source_index = -1;
};

// Those of `found` that `environment` shows, in its order. A name is a number, an id or the beginning of one; one that
// fits none ends the list, as with the drivers. Unset variables show all.
std::vector<OfferedDevice> OfferedDevices(const DeviceKind& kind, const std::vector<FoundDevice>& found,
                                          const std::map<std::string, std::string>& environment);

// Numbers the devices from 0 in their order.
void Renumber(std::vector<OfferedDevice>& devices);

// The visible-devices variables of every kind, each in effect: those of `kind` show `devices` in that order, all others
// nothing.
std::map<std::string, std::string> VisibleEnvironment(std::string_view kind, const std::vector<std::string>& devices);

}  // namespace troupe::device
