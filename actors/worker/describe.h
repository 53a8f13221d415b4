// SPDX-License-Identifier: Apache-2.0
// What this worker binary can do, as JSON: its actor classes and algorithms. Read by the command line, which has no
// LibTorch.
#pragma once

#include <string>

namespace troupe {

// {"actor_classes": [...], "advantages": [{"name", ...}], "policy_losses": [...], ...}
std::string DescribeWorker();

}  // namespace troupe
