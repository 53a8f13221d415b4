// SPDX-License-Identifier: Apache-2.0
#include "actors/metrics/event_file.h"

#include <catch2/catch.hpp>

#include "runtime/env/file.h"

namespace troupe {

// tensorflow/core/lib/io/record_writer.h.
TEST_CASE("EventFile: a record has its length and data with masked checksums", "[metrics]") {
  std::string record = TfRecord("troupe");
  REQUIRE(record.size() == 8 + 4 + 6 + 4);
  CHECK(record.substr(0, 8) == std::string("\6\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 6) == "troupe");
}

TEST_CASE("EventFile: scalars are events with step, tag and value", "[metrics]") {
  std::string folder = *MakeTemporaryDirectory("event-file-test");
  {
    auto events = *EventFile::Create(folder, 1700000000);
    events->Write(3, 1700000001, {{"critic/score/mean", 0.5}});
  }
  std::string content = *ReadFile(folder + "/events.out.tfevents.1700000000.troupe", 1 << 20);
  RemoveTree(folder).IgnoreError();
  CHECK(content.find("brain.Event:2") != std::string::npos);
  // step 3; summary { value { tag: 17 bytes, simple_value: 0.5f } }
  std::string event =
      std::string("\x10\x03\x2a\x1a\x0a\x18\x0a\x11", 8) + "critic/score/mean" + std::string("\x15\0\0\0\x3f", 5);
  CHECK(content.find(event) != std::string::npos);
}

}  // namespace troupe
