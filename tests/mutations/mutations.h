// SPDX-License-Identifier: Apache-2.0
// Damaged copies of valid inputs, repeatable from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace troupe {

// One to eight changes: a byte, a run of bytes, an extreme number, a cut, a repetition, a removal.
inline std::string Mutate(std::string input, std::mt19937_64& random) {
  auto below = [&](size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(random() % bound); };
  for (size_t change = 0, changes = 1 + below(8); change < changes; ++change) {
    size_t at = below(input.size());
    switch (below(7)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(random());
        break;
      case 1:
        if (!input.empty()) input[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2: {
        constexpr uint64_t kExtremes[] = {0,       1, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF,
                                          1u << 20};
        uint64_t value = kExtremes[below(7)];
        size_t width = below(2) == 0 ? 4 : 8;
        for (size_t i = 0; i < width && at + i < input.size(); ++i) input[at + i] = static_cast<char>(value >> (8 * i));
        break;
      }
      case 3:
        input.resize(at);
        break;
      case 4:
        input.insert(at, input.substr(below(input.size()), below(64)));
        break;
      case 5:
        input.erase(at, below(64));
        break;
      case 6:
        for (size_t i = 0, n = below(16); i < n && at + i < input.size(); ++i)
          input[at + i] = static_cast<char>(random());
        break;
    }
  }
  return input;
}

}  // namespace troupe
