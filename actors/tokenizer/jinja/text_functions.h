// SPDX-License-Identifier: Apache-2.0
// Python's functions on strings that filters and methods share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::jinja {

enum class Case { kUpper, kLower, kTitle, kCapital };

std::string ChangeCase(std::string_view text, Case to);

// Removes the characters of `set` (white space where empty) at the beginning and end.
std::string Strip(std::string_view text, std::string_view set, bool left, bool right);

// `count` below 0: every one.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t count,
                        size_t bytes_max);

// At `separator`; at runs of white space where it is empty. `count` below 0: everywhere.
std::vector<std::string> SplitText(std::string_view text, std::string_view separator, int64_t count, bool from_right);

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

// Characters, not bytes.
size_t CountCharacters(std::string_view text);

}  // namespace troupe::jinja
