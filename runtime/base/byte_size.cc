// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/byte_size.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace troupe {

std::optional<double> ParseByteSize(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},     {"TB", 1e12}};
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (unit == name && std::abs(number * factor) <= 9e18) return number * factor;
  }
  return std::nullopt;
}

}  // namespace troupe
