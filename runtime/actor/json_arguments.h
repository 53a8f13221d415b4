// SPDX-License-Identifier: Apache-2.0
// Constructor arguments of a job file (`args: [3, "x"]`) as the encoded tuple that a class's constructor reads.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace troupe {

// A JSON array of numbers, strings, booleans, null, arrays and objects; "" is an empty one. Whole numbers up to 2^53
// become integers, others doubles. INVALID_ARGUMENT: not a JSON array.
absl::StatusOr<std::string> EncodeJsonArguments(std::string_view json);

}  // namespace troupe
