// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/crc32c.h"

#include <array>
#include <cstring>

namespace troupe {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}

uint32_t Portable(const char* data, size_t size, uint32_t crc) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  for (size_t i = 0; i < size; ++i) crc = kTable[(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Hardware(const char* data, size_t size, uint32_t crc) {
  uint64_t state = crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto narrow = static_cast<uint32_t>(state);
  for (; size > 0; ++data, --size) narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*data));
  return narrow;
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2");
  if (kHasInstruction) return ~Hardware(bytes.data(), bytes.size(), ~crc);
#endif
  return ~Portable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace troupe
