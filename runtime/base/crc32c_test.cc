// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/crc32c.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace troupe {

// RFC 3720, B.4.
TEST_CASE("Crc32c: the values of RFC 3720", "[base]") {
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(Crc32c("123456789") == 0xe3069283);
}

TEST_CASE("Crc32c: parts give what the whole gives", "[base]") {
  std::string text = "a group is trained whole, strictly in the order of its sequence number";
  for (size_t cut = 0; cut <= text.size(); ++cut)
    CHECK(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))) == Crc32c(text));
}

TEST_CASE("Crc32c: any length and start gives what a bit by bit computation gives", "[base]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 10'000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    auto before = static_cast<uint32_t>(random());
    uint32_t simple = ~before;
    for (unsigned char byte : bytes) {
      simple ^= byte;
      for (int bit = 0; bit < 8; ++bit) simple = (simple >> 1) ^ ((simple & 1) ? 0x82f63b78u : 0);
    }
    REQUIRE(Crc32c(bytes, before) == ~simple);
  }
}

}  // namespace troupe
