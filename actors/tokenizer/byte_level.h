// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes as printable characters: a space is "Ġ", a newline "Ċ".
// Source: Radford et al. 2019, bytes_to_unicode.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// The spelling of each byte.
std::string BytesToSpelling(std::string_view bytes);

// The bytes that `spelling` stands for; nothing if one of its characters spells no byte.
std::optional<std::string> SpellingToBytes(std::string_view spelling);

}  // namespace troupe
