// SPDX-License-Identifier: Apache-2.0
// Where the programs beside `troupe` are: troupe_worker, troupe_keeper.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace troupe::cli {

// The program `name` in the folder of this program. NOT_FOUND says what to build.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

}  // namespace troupe::cli
