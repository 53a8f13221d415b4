// SPDX-License-Identifier: Apache-2.0
// The exception of a user's code as a status.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace troupe::internal {

// INTERNAL with the text of the exception that is being handled. Call it inside a catch block.
absl::Status ExceptionStatus(std::string_view where);

}  // namespace troupe::internal
