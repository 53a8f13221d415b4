// SPDX-License-Identifier: Apache-2.0
// Devices of which only the files in /dev are known: no library and no tool tells more.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// `prefix`0, `prefix`1, ... NOT_FOUND: there is not even the first.
absl::StatusOr<std::unique_ptr<DeviceSource>> CountDeviceFiles(const std::string& kind, const std::string& prefix);

}  // namespace troupe::device
