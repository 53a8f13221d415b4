// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/shown_text.h"

#include <cstdint>

namespace troupe {
namespace {

// The bytes of the character at the beginning of `text`; 0: it is none (overlong forms, surrogates and such too).
size_t CharacterBytes(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
  return bytes;
}

}  // namespace

std::string ShownText(std::string_view text, size_t bytes_max) {
  std::string shown;
  while (!text.empty()) {
    size_t bytes = CharacterBytes(text);
    size_t taken = bytes == 0 ? 1 : bytes;
    if (shown.size() + taken > bytes_max) return shown + "...";
    bytes == 0 ? shown.append("?") : shown.append(text.substr(0, bytes));
    text.remove_prefix(taken);
  }
  return shown;
}

}  // namespace troupe
