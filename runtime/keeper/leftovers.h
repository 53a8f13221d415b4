// SPDX-License-Identifier: Apache-2.0
// What a keeper that was killed left behind: descendants of its workers (the workers themselves died with it).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace troupe::keeper {

// Kills every process that was started below a worker of a keeper of this folder (by the mark in its environment) and
// waits until they are gone. FAILED_PRECONDITION names one that does not end.
absl::Status EndLeftoverProcesses(const std::string& runtime_dir);

// The name of a keeper's folder of control groups; its leftovers are ended when it is opened again.
std::string CgroupNameOf(const std::string& runtime_dir);

}  // namespace troupe::keeper
