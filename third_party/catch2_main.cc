// SPDX-License-Identifier: Apache-2.0
// The main function of every test program. It is one library because Catch2's main is slow to compile.
// `bazel test --test_filter='Mailbox*'` and the arguments of the rule are Catch2 test specifications.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
  Catch::Session session;
  if (int error = session.applyCommandLine(argc, argv); error != 0) return error;
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY"); filter != nullptr && *filter != '\0') {
    session.configData().testsOrTags.push_back(filter);
  }
  // A specification that matches nothing and a test that checks nothing are mistakes, not passes.
  session.configData().warnings = static_cast<Catch::WarnAbout::What>(
      session.configData().warnings | Catch::WarnAbout::NoTests | Catch::WarnAbout::NoAssertions);
  return session.run();
}
