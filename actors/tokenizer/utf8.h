// SPDX-License-Identifier: Apache-2.0
// UTF-8: checking, lossy conversion and single characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// One character at the beginning of `bytes`, or the longest beginning of one (Unicode's "maximal subpart").
struct Utf8Character {
  enum class Kind { kValid, kInvalid, kIncomplete };
  Kind kind = Kind::kInvalid;
  char32_t code = kReplacementCharacter;
  size_t length = 1;  // bytes that it takes; at least 1
};

// `bytes` is not empty. kIncomplete: all of `bytes` is the beginning of a character.
Utf8Character ReadUtf8(std::string_view bytes);

// The offset of the first byte that is no UTF-8; npos if there is none.
size_t FindInvalidUtf8(std::string_view bytes);

void AppendUtf8(char32_t code, std::string& out);

// `bytes` with what is no UTF-8 replaced by U+FFFD, one for each maximal subpart. Removes from `bytes` what it used:
// all of it, or all but an incomplete character at the end where `keep_incomplete`.
std::string TakeLossyUtf8(std::string& bytes, bool keep_incomplete);

// Unicode's White_Space property.
bool IsWhiteSpace(char32_t code);

// A character of a word, as regular expressions' \w sees it: alphabetic, mark, decimal digit, connector, joiner.
bool IsWordCharacter(char32_t code);

}  // namespace troupe
