// SPDX-License-Identifier: Apache-2.0
// Devices that a vendor's tool lists.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// A tool that takes longer is killed: some wait for ever for a driver that hangs.
inline constexpr absl::Duration kToolTimeout = absl::Seconds(10);

// What the program prints on stdout, at most 1 MiB of it. NOT_FOUND: it is not in PATH. DEADLINE_EXCEEDED: it was
// killed after `timeout`. RESOURCE_EXHAUSTED: it printed more. FAILED_PRECONDITION: it failed; the message says how.
absl::StatusOr<std::string> RunTool(const std::vector<std::string>& argv, absl::Duration timeout);

// NOT_FOUND: the tool is missing, or knows no device. Others: as of RunTool.
// Ascend: npu-smi; without it /dev/davinci0, 1, ... tell how many there are.
absl::StatusOr<std::unique_ptr<DeviceSource>> FindAscendDevices(const DevicePlaces& places);
absl::StatusOr<std::unique_ptr<DeviceSource>> FindKunlunDevices(const DevicePlaces& places);
absl::StatusOr<std::unique_ptr<DeviceSource>> FindPpuDevices(const DevicePlaces& places);

}  // namespace troupe::device
