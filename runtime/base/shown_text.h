// SPDX-License-Identifier: Apache-2.0
// ShownText: text of a user's (a line of a file, what a program printed) made fit for a message: short, and valid
// UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

// At most `bytes_max` bytes of `text` and then "..." where it was cut, never within a character. What is no UTF-8 is
// replaced by '?': a proto string that holds it could not be read back.
std::string ShownText(std::string_view text, size_t bytes_max);

}  // namespace troupe
