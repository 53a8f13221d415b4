// SPDX-License-Identifier: Apache-2.0
// How much memory there is: of the machine, for this process, left, and in use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// The smaller of what the machine has left without swapping (MemAvailable) and what the process' cgroup allows (v2,
// v1). Others take memory too: an answer is a bound for refusing what cannot be, not a promise.
int64_t AvailableMemoryBytes();

// Of the whole machine.
int64_t MachineMemoryBytes();

// The smaller of the machine's memory and what the cgroup of the process (v2, v1) allows: what there is to share out.
int64_t UsableMemoryBytes();

// Of the whole machine: what could not be had without swapping (MemTotal - MemAvailable); 0 when that cannot be read.
int64_t UsedMemoryBytes();

namespace internal {

// The number of kibibytes behind `name` ("MemAvailable:") in /proc/meminfo, as bytes; -1 when there is none.
int64_t ParseMeminfo(std::string_view meminfo, std::string_view name);
// The path behind the line of `controller` ("" for v2) in /proc/self/cgroup; "" when there is none.
std::string ParseCgroupPath(std::string_view self_cgroup, std::string_view controller);

}  // namespace internal
}  // namespace troupe
