// SPDX-License-Identifier: Apache-2.0
// The devices of AMD, as the kernel's amdgpu and amdkfd drivers show them below /sys.
// Source of the files: Linux, Documentation/gpu/amdgpu, and the KFD topology of include/uapi/linux/kfd_sysfs.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// NOT_FOUND: there is none, or none that this process may use.
absl::StatusOr<std::unique_ptr<DeviceSource>> FindRocmDevices(const DevicePlaces& places);

}  // namespace troupe::device
