// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/shown_text.h"

#include <catch2/catch.hpp>

namespace troupe {

TEST_CASE("ShownText: text is cut between characters and what is no UTF-8 is replaced", "[base]") {
  CHECK(ShownText("short", 5) == "short");
  CHECK(ShownText("longer", 5) == "longe...");
  CHECK(ShownText("a\xC3\xA9z", 2) == "a...");
  CHECK(ShownText("a\xC3\xA9z", 3) == "a\xC3\xA9...");
  CHECK(ShownText("\xF0\x9F\x8E\xAD", 4) == "\xF0\x9F\x8E\xAD");
  CHECK(ShownText("\xFF\xC3", 9) == "??");
  CHECK(ShownText("\xC0\x80 \xED\xA0\x80", 9) == "?? ???");
  CHECK(ShownText("\xF4\x90\x80\x80", 9) == "????");
}

}  // namespace troupe
