// SPDX-License-Identifier: Apache-2.0
// Where a thread runs (Linux's processor affinity).
#pragma once

#include <sched.h>

namespace troupe {

// The processor that this thread runs on now; negative: not known.
int CurrentCpu();

// Keeps the calling thread on one processor as long as it lives, for sleeps: what the thread starts meanwhile, threads
// and processes, would have only that one too. Of that thread alone. Does nothing for a processor that the thread may
// not use, or when it has only one.
class CpuPin {
 public:
  explicit CpuPin(int cpu);
  // Gives back what there was, unless somebody else has changed it.
  ~CpuPin();
  CpuPin(const CpuPin&) = delete;
  CpuPin& operator=(const CpuPin&) = delete;

 private:
  int pinned_ = -1;
  cpu_set_t before_;
};

}  // namespace troupe
