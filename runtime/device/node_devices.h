// SPDX-License-Identifier: Apache-2.0
// NodeDevices: the devices that a node offers: those of one kind that were found, asked for and may be seen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/visible_devices.h"

namespace troupe::device {

// Not thread-safe.
class NodeDevices {
 public:
  NodeDevices() = default;  // None.

  // `request`: "auto": of the first kind that has any here; "none"; "sim:8,memory=80GiB,island=4,numa=4"; a kind, whose
  // devices must be there; "cuda:0,2": only those, by number.
  // INVALID_ARGUMENT: it has another form; the message names what is wrong. NOT_FOUND: there is no such device.
  // FAILED_PRECONDITION: the kind's driver does not answer.
  static absl::StatusOr<NodeDevices> Find(const std::string& request, const DevicePlaces& places);

  const std::string& kind() const { return kind_; }  // "" when there are none.
  // By their numbers on this node, from 0.
  const std::vector<OfferedDevice>& devices() const { return devices_; }
  bool empty() const { return devices_.empty(); }
  // What was passed over, for the node's log.
  const std::vector<std::string>& notes() const { return notes_; }

  // How each is now.
  std::vector<v1::DeviceHealth> Health();

 private:
  static NodeDevices FindAny(const DevicePlaces& places);

  std::string kind_;
  std::unique_ptr<DeviceSource> source_;
  std::vector<OfferedDevice> devices_;
  std::vector<std::string> notes_;
};

}  // namespace troupe::device
