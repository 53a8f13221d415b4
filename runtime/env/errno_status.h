// SPDX-License-Identifier: Apache-2.0
// The one place where an errno becomes an absl::Status.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace troupe {

// "what: No such file or directory" with the code that fits: ENOENT is NOT_FOUND; ENOSPC, EMFILE and ENOMEM are
// RESOURCE_EXHAUSTED; EACCES is PERMISSION_DENIED; ECONNREFUSED is UNAVAILABLE; EADDRINUSE and EEXIST are
// ALREADY_EXISTS.
absl::Status ErrnoStatus(int error_number, std::string_view what);

}  // namespace troupe
