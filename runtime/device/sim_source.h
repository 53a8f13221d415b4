// SPDX-License-Identifier: Apache-2.0
// Simulated devices, for tests and trials: as many as one says, of any memory and topology, and as ill as one says.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device_source.h"

namespace troupe::device {

struct SimDevices {
  int count = 0;
  int64_t memory_bytes = 0;  // Of each; 0: not known.
  int per_island = 0;        // Devices of an island of fast links, by number; 0: none.
  int per_numa_node = 0;     // Devices of a NUMA node, by number; 0: not known.
};

// "8", "8,memory=80GiB,island=4,numa=4". INVALID_ARGUMENT names the part that is wrong and what it may be. Pure.
absl::StatusOr<SimDevices> ParseSimDevices(std::string_view text);

// What the health file says, by device: lines "NUMBER xid N" and "NUMBER healthy|degraded|failed [REASON]"; the last
// one about a device counts, so that a device mends by a line more or by one less. Lines of other forms are passed
// over. Pure.
std::vector<v1::DeviceHealth> ParseSimHealth(std::string_view text, int count);

// The health file is read at each look; none: all are healthy.
std::unique_ptr<DeviceSource> MakeSimDevices(const SimDevices& sim, const std::string& health_file);

}  // namespace troupe::device
