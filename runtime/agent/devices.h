// SPDX-License-Identifier: Apache-2.0
// What a node has: CPUs, memory, devices.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "troupe/v1/common.pb.h"

namespace troupe::agent {

struct NodeResourceOptions {
  double cpus = 0;               // 0: those that this process may use.
  int64_t memory_bytes = 0;      // 0: the machine's, or the limit of the control group if that is less.
  std::string devices = "auto";  // "auto": the CUDA devices there are; "none"; "sim:N".
};

// What "quota period" of a control group allows; infinity when it sets no limit.
double CpusOfQuota(std::string_view text);

// INVALID_ARGUMENT: `devices` has another form, or a number is negative.
absl::StatusOr<v1::Resources> FindNodeResources(const NodeResourceOptions& options);

}  // namespace troupe::agent
