// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: "512MiB", "4GiB", "80 GB".
#pragma once

#include <optional>
#include <string_view>

namespace troupe {

// Bytes; without a unit the number itself. Units: B, KiB, MiB, GiB, TiB (powers of 1024), KB, MB, GB, TB (of 1000).
// None: it is no number with one of them, or beyond 9e18 either way. A negative number is one.
std::optional<double> ParseByteSize(std::string_view text);

}  // namespace troupe
