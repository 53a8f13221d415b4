// SPDX-License-Identifier: Apache-2.0
// UTF-8: checking, lossy conversion and single characters.
#include "actors/tokenizer/utf8.h"

#include <utf8proc.h>

namespace troupe {

Utf8Character ReadUtf8(std::string_view bytes) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80) return {Utf8Character::Kind::kValid, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {};
  size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {Utf8Character::Kind::kIncomplete, kReplacementCharacter, i};
    if (at(i) < low || at(i) > high) return {Utf8Character::Kind::kInvalid, kReplacementCharacter, i};
    code = code << 6 | (at(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Character::Kind::kValid, code, length};
}

size_t FindInvalidUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    Utf8Character character = ReadUtf8(bytes.substr(i));
    if (character.kind != Utf8Character::Kind::kValid) return i;
    i += character.length;
  }
  return std::string_view::npos;
}

void AppendUtf8(char32_t code, std::string& out) {
  auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string TakeLossyUtf8(std::string& bytes, bool keep_incomplete) {
  std::string out;
  out.reserve(bytes.size());
  size_t i = 0;
  while (i < bytes.size()) {
    std::string_view rest = std::string_view(bytes).substr(i);
    Utf8Character character = ReadUtf8(rest);
    if (character.kind == Utf8Character::Kind::kIncomplete && keep_incomplete) break;
    if (character.kind == Utf8Character::Kind::kValid) {
      out.append(rest.substr(0, character.length));
    } else {
      AppendUtf8(kReplacementCharacter, out);
    }
    i += character.length;
  }
  bytes.erase(0, i);
  return out;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D;
  }
}

}  // namespace troupe
