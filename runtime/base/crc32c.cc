// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/crc32c.h"

#include <array>
#include <cstring>

namespace troupe {
namespace {

// The polynomial, bits reversed.
constexpr uint32_t kPolynomial = 0x82f63b78u;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t Portable(const char* data, size_t size, uint32_t crc) {
  for (size_t i = 0; i < size; ++i) crc = kTable[(crc ^ static_cast<unsigned char>(data[i])) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
// The instruction takes three cycles but may start in each of them: three lanes are three times as fast as one.
constexpr size_t kLaneBytes = 1024;

// What a state becomes when kLaneBytes zero bytes follow, a table for each of its four bytes. The step is linear, so
// the states of the four bytes are summed by XOR.
using ShiftTables = std::array<std::array<uint32_t, 256>, 4>;
constexpr ShiftTables MakeShift() {
  std::array<uint32_t, 32> of_bit{};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t state = 1u << bit;
    for (size_t i = 0; i < kLaneBytes; ++i) state = kTable[state & 0xff] ^ (state >> 8);
    of_bit[static_cast<size_t>(bit)] = state;
  }
  ShiftTables tables{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit) & 1) tables[byte][value] ^= of_bit[8 * byte + bit];
      }
    }
  }
  return tables;
}
constexpr ShiftTables kShift = MakeShift();

uint32_t ShiftByLane(uint64_t state) {
  auto crc = static_cast<uint32_t>(state);
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^ kShift[3][crc >> 24];
}

uint64_t Load(const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t Hardware(const char* data, size_t size, uint32_t crc) {
  uint64_t state = crc;
  for (; size >= 3 * kLaneBytes; data += 3 * kLaneBytes, size -= 3 * kLaneBytes) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      state = __builtin_ia32_crc32di(state, Load(data + i));
      second = __builtin_ia32_crc32di(second, Load(data + kLaneBytes + i));
      third = __builtin_ia32_crc32di(third, Load(data + 2 * kLaneBytes + i));
    }
    state = ShiftByLane(ShiftByLane(state) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) state = __builtin_ia32_crc32di(state, Load(data));
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
