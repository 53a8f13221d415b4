// SPDX-License-Identifier: Apache-2.0
// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// The smaller of what the machine has left without swapping (MemAvailable) and what the process' cgroup allows (v2,
// v1). Others take memory too: an answer is a bound for refusing what cannot be, not a promise.
int64_t AvailableMemoryBytes();

namespace internal {

// The number of kibibytes behind "MemAvailable:" in /proc/meminfo, as bytes; -1 when there is none.
int64_t ParseMemAvailable(std::string_view meminfo);
// The path behind the line of `controller` ("" for v2) in /proc/self/cgroup; "" when there is none.
std::string ParseCgroupPath(std::string_view self_cgroup, std::string_view controller);

}  // namespace internal
}  // namespace troupe
