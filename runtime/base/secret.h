// SPDX-License-Identifier: Apache-2.0
// Comparing secrets.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe {

// Takes as long whatever the first difference is, so that a token cannot be guessed byte by byte; only the length
// shows.
inline bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace troupe
