// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace troupe::cli {
namespace {

// Characters on the terminal: UTF-8 continuation bytes take no room.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

std::string Harmless(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  char text[64];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

}  // namespace

std::string TextTable::ToText() const {
  std::vector<size_t> widths;
  for (const std::string& column : columns_) widths.push_back(Width(column));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t i = 0; i < widths.size(); ++i) {
      std::string cell = i < cells.size() ? Harmless(cells[i]) : "";
      text += cell;
      if (i + 1 < widths.size()) text += std::string(widths[i] - Width(cell) + 2, ' ');
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  line(columns_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string ShortDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 10) return Format("%.1fs", seconds);
  auto whole = static_cast<long long>(seconds);
  if (whole < 60) return Format("%llds", whole);
  if (whole < 3600) return Format("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) return Format("%lldh%02lldm", whole / 3600, whole / 60 % 60);
  return Format("%lldd%02lldh", whole / 86400, whole / 3600 % 24);
}

std::string ShortBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return Format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
}

std::string Bar(double fraction, int width) {
  int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width + 0.5);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  return bar;
}

std::string Sparkline(const std::vector<double>& values, size_t width) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> cells(std::min(width, values.size()));
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < cells.size(); ++i) {
    double sum = 0, count = 0;
    for (size_t k = i * values.size() / cells.size(); k < (i + 1) * values.size() / cells.size(); ++k) {
      if (!std::isfinite(values[k])) continue;
      sum += values[k];
      ++count;
    }
    cells[i] = sum / count;  // NaN: none is known
    if (count == 0) continue;
    low = std::min(low, cells[i]);
    high = std::max(high, cells[i]);
  }
  std::string curve;
  for (double cell : cells) {
    double place = high > low ? (cell - low) / (high - low) : 0.5;
    curve += std::isfinite(cell) ? kBlocks[static_cast<size_t>(place * 7 + 0.5)] : " ";
  }
  return curve;
}

}  // namespace troupe::cli
