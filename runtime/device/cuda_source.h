// SPDX-License-Identifier: Apache-2.0
// The devices of NVIDIA: by NVML, else by their device files.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

// NOT_FOUND: there is none. FAILED_PRECONDITION: the library is there, but its driver does not answer.
// With device files and no library only their number is known.
absl::StatusOr<std::unique_ptr<DeviceSource>> FindCudaDevices(const DevicePlaces& places);

}  // namespace troupe::device
