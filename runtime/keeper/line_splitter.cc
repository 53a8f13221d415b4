// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/line_splitter.h"

namespace troupe::keeper {
namespace {

// The largest cut at or below `limit` that does not split a UTF-8 character (bytes that are not UTF-8 are cut
// anywhere).
size_t CutBefore(std::string_view text, size_t limit) {
  for (size_t back = 0; back < 4 && back < limit; ++back) {
    bool continues = (static_cast<unsigned char>(text[limit - back]) & 0xC0) == 0x80;
    if (!continues) return limit - back;
  }
  return limit;
}

}  // namespace

void LineSplitter::Feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    if (after_carriage_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_carriage_return_ = false;
    size_t end = bytes.find_first_of("\n\r");
    pending_.append(bytes.substr(0, end));
    CutOverlong(sink);
    if (end == std::string_view::npos) return;
    sink(pending_);
    pending_.clear();
    after_carriage_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(const Sink& sink) {
  if (!pending_.empty()) sink(pending_);
  pending_.clear();
  after_carriage_return_ = false;
}

void LineSplitter::CutOverlong(const Sink& sink) {
  size_t start = 0;
  while (pending_.size() - start > line_bytes_max_) {
    std::string_view rest = std::string_view(pending_).substr(start);
    size_t cut = CutBefore(rest, line_bytes_max_);
    sink(rest.substr(0, cut));
    start += cut;
  }
  pending_.erase(0, start);
}

}  // namespace troupe::keeper
