// SPDX-License-Identifier: Apache-2.0
// Ids of jobs: "<name>-<6 hex digits>", and the answer to one that does not exist.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace troupe::scheduler {

// The first id from `entropy` that is not taken.
std::string MakeJobId(const std::string& name, uint64_t entropy, const std::function<bool(const std::string&)>& taken);

// "1 node", "2 nodes"
std::string Count(size_t count, const std::string& noun);

// NOT_FOUND that names the nearest of `known`.
absl::Status NoSuchJob(const std::string& id, const std::vector<std::string>& known);

}  // namespace troupe::scheduler
