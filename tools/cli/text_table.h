// SPDX-License-Identifier: Apache-2.0
// TextTable: rows of text in columns, for lists on a terminal; the same rows as JSON or YAML.
#pragma once

#include <string>
#include <vector>

namespace troupe::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> columns) : columns_(std::move(columns)) {}
  // One cell a column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Columns padded to their widest cell; control characters are replaced, so that no cell can move the cursor.
  std::string ToText() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "3m20s", "2h05m", "4d": short, for people.
std::string ShortDuration(double seconds);
// "1.5 GiB"
std::string ShortBytes(double bytes);
// A bar of `width` characters of which `fraction` is filled.
std::string Bar(double fraction, int width);
// A curve of at most `width` block characters over all values, scaled to their range; each is the mean of its share.
std::string Sparkline(const std::vector<double>& values, size_t width);

}  // namespace troupe::cli
