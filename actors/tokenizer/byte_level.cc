// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes as printable characters.
#include "actors/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "actors/tokenizer/utf8.h"

namespace troupe {
namespace {

// Printable characters of Latin-1 stand for themselves; the other 68 bytes take U+0100 and on, in order.
struct Tables {
  std::array<char32_t, 256> to_code;
  std::array<int16_t, 0x144> to_byte;

  Tables() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      to_code[static_cast<size_t>(byte)] = printable ? static_cast<char32_t>(byte) : next++;
      to_byte[to_code[static_cast<size_t>(byte)]] = static_cast<int16_t>(byte);
    }
  }
};

const Tables& GetTables() {
  static const Tables tables;
  return tables;
}

}  // namespace

std::string BytesToSpelling(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) AppendUtf8(GetTables().to_code[static_cast<unsigned char>(byte)], out);
  return out;
}

std::optional<std::string> SpellingToBytes(std::string_view spelling) {
  const Tables& tables = GetTables();
  std::string out;
  while (!spelling.empty()) {
    Utf8Character character = ReadUtf8(spelling);
    if (character.code >= tables.to_byte.size() || tables.to_byte[character.code] < 0) return std::nullopt;
    out += static_cast<char>(tables.to_byte[character.code]);
    spelling.remove_prefix(character.length);
  }
  return out;
}

}  // namespace troupe
