// SPDX-License-Identifier: Apache-2.0
// What a node has beside its devices (runtime/device/): CPUs, memory, and what its users call its own.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "troupe/v1/common.pb.h"

namespace troupe::agent {

struct NodeResourceOptions {
  double cpus = 0;                       // 0: those that this process may use.
  int64_t memory_bytes = 0;              // 0: the machine's, or the limit of the control group if that is less.
  std::string devices = "auto";          // As NodeDevices::Find takes it.
  std::map<std::string, double> custom;  // Further kinds by name: {"licence", 2}.
};

// What "quota period" of a control group allows; infinity when it sets no limit.
double CpusOfQuota(std::string_view text);

// Without devices. INVALID_ARGUMENT: a number is negative or absurd, a name is empty or long; the message names it.
absl::StatusOr<v1::Resources> FindNodeResources(const NodeResourceOptions& options);

}  // namespace troupe::agent
