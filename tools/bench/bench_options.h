// SPDX-License-Identifier: Apache-2.0
// What `troupe bench` was asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/bench/meter.h"

namespace troupe::bench {

struct BenchOptions {
  MeterOptions meter;
  std::vector<int64_t> payload_bytes = {1 << 10, 64 << 10, 1 << 20, 4 << 20};
  absl::Duration spin = absl::Milliseconds(1);  // 0: no rings that spin.
  std::string torch_worker;                     // The program //tools/bench:torch_worker; "": none.
  bool simulate = false;                        // Only what needs no disk, network or processes.
  bool quick = false;                           // A look at whether everything works, in seconds.
};

}  // namespace troupe::bench
