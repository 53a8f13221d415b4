// SPDX-License-Identifier: Apache-2.0
// troupe bench: how fast this machine's actors and objects are, beside what the machine itself can do.
#include "tools/bench/bench.h"

#include "tools/cli/commands.h"

namespace troupe::cli {

int BenchCommand(const Options& options) {
  if (options.target == "idle") return bench::RunIdleCluster();
  return bench::RunBench(options.target, options.bench);
}

}  // namespace troupe::cli
