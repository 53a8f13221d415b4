// SPDX-License-Identifier: Apache-2.0
#include "runtime/job/job_reference.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace troupe {
namespace {

TEST_CASE("JobReference: docs/job-file.md is what the table of keys says", "[job]") {
  std::ifstream file("docs/job-file.md");
  REQUIRE(file.is_open());
  std::stringstream written;
  written << file.rdbuf();
  // Otherwise: bazel run //runtime/job:write_reference > docs/job-file.md
  CHECK(written.str() == JobReferenceMarkdown());
}

}  // namespace
}  // namespace troupe
