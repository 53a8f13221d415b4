// SPDX-License-Identifier: Apache-2.0
// LineSplitter: cuts a worker's output into lines of bounded length.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace troupe::keeper {

// A line ends at "\n", "\r\n" or "\r" (progress bars). One that is longer than the limit is given in pieces, cut
// between UTF-8 characters. Holds at most one unfinished line. Not thread-safe.
class LineSplitter {
 public:
  // Longer lines are of no use to a reader, and a line is held in memory until it ends.
  static constexpr size_t kLineBytesMax = 16 * 1024;
  using Sink = std::function<void(std::string_view line)>;

  explicit LineSplitter(size_t line_bytes_max = kLineBytesMax) : line_bytes_max_(line_bytes_max) {}

  // `sink` is called for each line that is complete now, without its end.
  void Feed(std::string_view bytes, const Sink& sink);
  // The output ended: gives the unfinished line, if there is one.
  void Finish(const Sink& sink);

 private:
  void CutOverlong(const Sink& sink);

  const size_t line_bytes_max_;
  std::string pending_;
  bool after_carriage_return_ = false;
};

}  // namespace troupe::keeper
