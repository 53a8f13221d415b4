// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor/stream_sink.h"

#include <catch2/catch.hpp>
#include <string>

namespace troupe {
namespace {

TEST_CASE("StreamSink: whatever is granted, and how often, is no more than the largest window", "[stream]") {
  constexpr size_t kMuch[] = {SIZE_MAX, SIZE_MAX / 2 + 2, StreamWindow::kItemsMax};
  for (size_t much : kMuch) {
    StreamSink sink([](const std::string&) {}, {much, much});
    CHECK(sink.Push("x"));
    for (int i = 0; i < 3; ++i) sink.Grant(much, much);
    CHECK(sink.Push("x"));
  }
}

}  // namespace
}  // namespace troupe
