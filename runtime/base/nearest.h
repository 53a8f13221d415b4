// SPDX-License-Identifier: Apache-2.0
// Which known word somebody who wrote an unknown one may have meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Levenshtein distance, in bytes.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that is most like `word`: few edits away, or one that contains it; "" when none is near.
std::string NearestOf(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace troupe
