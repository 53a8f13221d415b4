// SPDX-License-Identifier: Apache-2.0
// What /proc says of processes: who uses the processors, and what a program and its children cost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/monotonic.h"

namespace troupe::bench {

// `root` and all below it that live now.
std::vector<pid_t> ProcessTree(pid_t root);
// Proportional set size. NOT_FOUND: it has gone, or the kernel does not tell.
absl::StatusOr<int64_t> MemoryOf(pid_t process);
// Of all threads that live, to the nanosecond.
absl::Duration ProcessorTimeOf(pid_t process);
// Of this process now.
int64_t ResidentBytes();

// From its construction on.
class ProcessorUse {
 public:
  ProcessorUse();
  // The share of all processors' time that processes outside this one's tree used, 0 to 1; what a hypervisor took away
  // counts too. In ticks of 10 ms.
  double OthersShare() const;

 private:
  const Monotonic begin_;
  const double machine_, own_;  // Seconds.
};

}  // namespace troupe::bench
