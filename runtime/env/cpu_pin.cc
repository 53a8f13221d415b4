// SPDX-License-Identifier: Apache-2.0
#include "runtime/env/cpu_pin.h"

#include <cstring>

namespace troupe {

int CurrentCpu() { return ::sched_getcpu(); }

CpuPin::CpuPin(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  if (::sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  if (CPU_COUNT(&before_) < 2 || !CPU_ISSET(cpu, &before_)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof(one), &one) == 0) pinned_ = cpu;
}

CpuPin::~CpuPin() {
  if (pinned_ < 0) return;
  cpu_set_t now;
  if (::sched_getaffinity(0, sizeof(now), &now) != 0 || CPU_COUNT(&now) != 1 || !CPU_ISSET(pinned_, &now)) return;
  if (::sched_setaffinity(0, sizeof(before_), &before_) == 0) return;
  std::memset(&now, 0xff, sizeof(now));  // None of them is left to this process: all that are.
  static_cast<void>(::sched_setaffinity(0, sizeof(now), &now));
}

}  // namespace troupe
